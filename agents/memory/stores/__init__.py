"""Stores of session state: the port, and stores in this process, in a SQLite file and in Redis."""
