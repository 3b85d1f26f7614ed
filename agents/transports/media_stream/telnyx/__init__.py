"""Telnyx: its wire and its webhook."""
