"""Ids: a short prefix that names the kind of thing, and 12 random hexadecimal digits."""

from __future__ import annotations

import os


def new_id(prefix: str) -> str:
    """Return a fresh id such as `"turn_3f9a0c1b22de"` (48 random bits)."""
    return f"{prefix}_{os.urandom(6).hex()}"
