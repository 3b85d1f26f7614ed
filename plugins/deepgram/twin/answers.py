"""The twin's answers: messages, and the end of a connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Close:
    """The server closes the websocket; code 1005: without a status."""

    code: int
    reason: str = ""


Answer = Message | Close


class Session(Protocol):
    """One connection, sans-I/O."""

    key_terms: list[str]

    def begin(self) -> Iterator[Answer]:
        """Return the first messages."""
        ...

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        """Take a binary frame."""
        ...

    def text(self, message: str) -> Iterator[Answer]:
        """Take a text frame."""
        ...
