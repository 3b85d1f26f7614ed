"""Deepgram."""
