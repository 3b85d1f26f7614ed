"""Drives the browser page in Chromium, and writes its schema."""
