"""Twilio: its wire and its webhook."""
