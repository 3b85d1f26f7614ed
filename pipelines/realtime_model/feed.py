"""Feed: what a connection's reader hands to one who iterates: answers' pieces, events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Feed(Generic[T]):
    """An unbounded queue with an end, filled without waiting; one at a time iterates it.

    What was put before the end is yielded before it.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._changed = anyio.Event()
        self._error: Exception | None = None
        self.has_ended = False

    def put(self, item: T) -> None:
        """Add an item; after the end it is dropped."""
        if not self.has_ended:
            self._items.append(item)
            self._changed.set()

    def end(self, error: Exception | None = None) -> None:
        """There is no more, for this reason; a second end changes nothing."""
        if not self.has_ended:
            self.has_ended, self._error = True, error
            self._changed.set()

    async def items(self) -> AsyncGenerator[T, None]:
        """Yield until the end, then raise its error, if it has one."""
        while True:
            while self._items:
                yield self._items.popleft()
            if self.has_ended:
                break
            self._changed = anyio.Event()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
