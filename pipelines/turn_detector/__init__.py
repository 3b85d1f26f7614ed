"""The turn detector port: is the user done speaking?"""
