"""Plivo: its wire and its webhook."""
