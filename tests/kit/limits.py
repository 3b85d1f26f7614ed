"""The limit of real time of tests that wait for a fact: it only guards against a hang."""

from __future__ import annotations

LIMIT = 60.0
"""Seconds. Most of what is waited for takes well under one; a busy machine may need many."""
