"""Vonage: its wire and its webhook."""
