"""Instruments of a session."""
