"""Feed: a queue from a connection's reader to one consumer, for answers' pieces or events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Feed(Generic[T]):
    """An unbounded queue with an end, filled without waiting; it has one consumer at a time.

    Items that were put before the end are yielded before it.
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
        """End the queue, with this error if any; a second end changes nothing."""
        if not self.has_ended:
            self.has_ended, self._error = True, error
            self._changed.set()

    def take_unread(self) -> list[T]:
        """Return the items that were not yielded, and forget them: the consumer has gone."""
        unread = list(self._items)
        self._items.clear()
        return unread

    async def items(self) -> AsyncGenerator[T, None]:
        """Yield until the end, then raise its error, if any."""
        while True:
            while self._items:
                yield self._items.popleft()
            if self.has_ended:
                break
            self._changed = anyio.Event()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
