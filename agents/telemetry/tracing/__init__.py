"""Spans of a session."""
