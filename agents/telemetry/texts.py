"""Texts of telemetry: the form that OTLP can encode, and the names of errors."""

from __future__ import annotations


def encodable(text: str) -> str:
    """Return it without half surrogate pairs, which cost an attribute where they are in one, elsewhere the batch."""
    return text.encode("utf-8", "replace").decode()


def type_name(kind: type[BaseException]) -> str:
    """Return an error's `exception.type`: with its module, unless it is Python's own."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
