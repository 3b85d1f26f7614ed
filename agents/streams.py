"""The types of `Agent.on_stream`: Stream, and StreamItem, one item of it. `agents.memory.streams` carries them out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

END = "EOS"
"""Ends a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamItem:
    """One item of a stream: a value, or a control message.

    Args:
        index: Counts the stream's items from 0. A gap shows items that were dropped before they were read.
        at: When it was written, by the clock of its writer: seconds since the Unix epoch.
        value: The value, JSON; None for a control message.
        code: The code of a control message; empty for a value. `EOS` is the stream's end.
        args: The arguments of a control message.
    """

    index: int
    at: float
    value: Any = field(default=None, repr=False)
    code: str = ""
    args: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_control(self) -> bool:
        """Whether it is a control message, and has no value."""
        return bool(self.code)

    @property
    def is_end(self) -> bool:
        """Whether the stream ends here."""
        return self.code == END


class Stream(ABC):
    """Ordered items that all processes with the session's memory may write and read; it keeps the newest 10,000.

    Get it from `memory.open_stream()`. Its methods raise StoreUnavailable if the store does not answer in time.
    """

    def __repr__(self) -> str:
        return f"Stream({self.name!r})"

    @property
    @abstractmethod
    def name(self) -> str:
        """The stream's name in its session."""

    @abstractmethod
    async def write(self, value: Any) -> int:
        """Append a value (JSON), and return its index.

        Raises:
            StoreValueError: It is no JSON, or longer than 1 MiB.
            StoreError: The stream is closed.
        """

    @abstractmethod
    async def control(self, code: str, **args: Any) -> int:
        """Append a control message, and return its index.

        Raises:
            ConfigurationError: The code is no name, or `EOS`, which `close()` writes.
            StoreValueError: An argument is no JSON, or they are longer than 1 MiB.
            StoreError: The stream is closed.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the stream, in all processes; without effect if it is closed.

        Raises:
            ConfigurationError: It is `memory.stream`, which ends with the session.
        """

    @abstractmethod
    def read(self, start: int = 0, follow: bool = True) -> AsyncGenerator[StreamItem, None]:
        """Return an iterator of the items from index `start` on, or from the oldest one that is left.

        It ends when the stream is closed, or the session has ended.

        Args:
            follow: Wait for further items; otherwise it ends with the newest item that is there now.
        Raises:
            ConfigurationError: An argument is of another kind.
            StoreUnavailable: From the iterator: the store did not answer in time.
            StoreError: From the iterator: the session was erased.
        """
