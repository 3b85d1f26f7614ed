"""The names of errors in telemetry."""

from __future__ import annotations


def type_name(kind: type[BaseException]) -> str:
    """Return an error's `exception.type`: with its module, unless it is Python's own."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
