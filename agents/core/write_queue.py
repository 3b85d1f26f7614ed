"""WriteQueue: makes a session's writes to a store, in a task of its own, so that no turn waits for them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Generic, Protocol, TypeVar

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.pipelines.core.errors import SessionError, StoreError, StoreUnavailable
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

T = TypeVar("T")

MAX_WAITING = 1000
"""Entries that may wait, an hour of talk, besides those of a resumed session; then the oldest are lost."""
MAX_SIZE = 32 * 1024 * 1024
"""Characters of the large ones among them."""
TRIES = 5
"""Attempts at a write to a store that fails for a reason which is no outage of the store."""
LAST_TRIES, LAST_PAUSE = 1.5, 0.25
"""Seconds from the close of a session's first queue on in which writes that fail are made again, and between two such
tries. The queues close one after the other, and the agent leaves the room behind them.
"""


class WriteHealth(Protocol):
    """Notes how the writes of a queue end, and reports failures. `by` is the queue's name."""

    def worked(self, by: str = "") -> None:
        """Note that a write was made."""

    def failed(self, error: Exception, by: str = "") -> None:
        """Note that a write failed, and will be made again."""

    def lost(self, error: Exception) -> None:
        """Note that entries are lost."""


def store_refuses(error: Exception, tries: int) -> bool:
    """Return whether a store refuses a write for good.

    In an outage (StoreUnavailable) writes wait. A write that the store refuses (any other StoreError) is lost, and so
    is one that fails for another reason five times.
    """
    if isinstance(error, StoreError):
        return not isinstance(error, StoreUnavailable)
    return tries >= TRIES


class WriteQueue(Generic[T]):
    """Takes entries without waiting and writes them in order.

    A write that fails is made again, with the later entries. The close goes on with that for a short time, and then
    makes each write once more, until one fails that is not refused. Entries that are refused together are written one
    by one.

    Args:
        target: Where the entries go, for errors, for example `"the session store"`.
        write: Writes entries, the oldest first, within a limit of its own. After a failure it is called again, and may
            therefore write an entry twice.
        name: Of the task, and of this queue in `health`.
        batch: Entries of one write.
        pauses: Seconds from a failed write to the next try, doubled each time: the first and the longest.
        refuses: Called with the error of a write, and the number of attempts at it; returns whether its entries are
            lost: the target can never take them. By default as `store_refuses`.
    """

    def __init__(
        self,
        context: SessionContext,
        target: str,
        write: Callable[[Sequence[T]], Awaitable[object]],
        health: WriteHealth,
        *,
        name: str,
        batch: int = 1,
        pauses: tuple[float, float] = (0.5, 5.0),
        refuses: Callable[[Exception, int], bool] = store_refuses,
    ) -> None:
        self._context = context
        self._target = target
        self._write_entries = write
        self._health = health
        self._name = name
        self._batch = batch
        self._first_pause, self._longest_pause = pauses
        self._refuses = refuses
        self._waiting: deque[T] = deque()
        self._sizes: deque[int] = deque()
        """Of the waiting entries, in the same order."""
        self._tries = 0
        """Attempts at the oldest entries."""
        self._apart = 0
        """How many of the oldest entries are written one by one, since they were refused together."""
        self._is_refusing = False
        """Whether the last entries were refused, which was reported."""
        self._limit = MAX_WAITING
        self._news = anyio.Event()
        self._ended: anyio.Event | None = None
        self._is_closing = self._is_over = False
        self._tries_end = math.inf
        """When a write that fails is made again no more; set by the close."""
        self._lost = 0
        self._is_loss_reported = False

    @property
    def is_open(self) -> bool:
        return self._ended is not None

    @property
    def is_over(self) -> bool:
        """Whether it takes no more entries."""
        return self._is_over

    @property
    def lost(self) -> int:
        """The entries that were lost; after the close, those that waited in vain too."""
        return self._lost + (len(self._waiting) if self._is_over else 0)

    def open(self) -> None:
        """Begin to write, in a task of the session; entries noted before are written too. Call it in a task."""
        if self._ended is None and not self._is_closing:
            self._ended = anyio.Event()
            self._context.group.start_soon(self._run, self._ended, name=self._name)

    def begin_with(self, entries: Iterable[T]) -> None:
        """Note the entries of an earlier session, however many."""
        self._waiting.extend(entries)
        self._sizes.extend([0] * (len(self._waiting) - len(self._sizes)))
        self._limit = MAX_WAITING + len(self._waiting)
        self._news.set()

    def put(self, entry: T, *, size: int = 0) -> None:
        """Note an entry. Call it on the session's event loop. After the close the entry is lost.

        Args:
            size: Characters that the entry holds, if they may be many.
        """
        if self._is_over:
            self._lost += 1
            return
        self._waiting.append(entry)
        self._sizes.append(size)
        while len(self._waiting) > self._limit or (len(self._waiting) > 1 and size and sum(self._sizes) > MAX_SIZE):
            if not self._is_loss_reported:
                self._is_loss_reported = True
                behind = len(self._waiting) - 1
                self._health.lost(SessionError(f"{self._target} is {behind} changes behind; the oldest are lost"))
            self._take_oldest()
            self._lost += 1
        self._news.set()

    def has(self, entry: T) -> bool:
        """Return whether such an entry waits, or is being written."""
        return entry in self._waiting

    async def aclose(self) -> None:
        """Write the waiting entries and end; the caller limits it."""
        self._is_closing = True
        self._tries_end = self._context.closing.tries_end(self._context.clock.now() + LAST_TRIES)
        self._news.set()
        try:
            if self._ended is not None:
                await self._ended.wait()
        finally:
            self._is_over = True

    async def _run(self, ended: anyio.Event) -> None:
        pause = 0.0
        try:
            while not self._is_over and (self._waiting or not self._is_closing):
                # After a failure the target rests for a while; the close does not wait for that.
                with anyio.move_on_after(pause) if pause else nullcontext():
                    while not self._is_closing and (pause or not self._waiting):
                        self._news = anyio.Event()
                        await self._news.wait()
                if not self._waiting or self._is_over or await self._write():
                    pause = 0.0
                elif self._is_closing:
                    if self._is_last_try:
                        break
                    await anyio.sleep(LAST_PAUSE)
                else:
                    pause = min(max(2 * pause, self._first_pause), self._longest_pause)
        finally:
            ended.set()

    async def _write(self) -> bool:
        """Write the oldest entries; return whether that is over."""
        size = 1 if self._apart else self._batch
        entries, lost_before, is_taken = list(islice(self._waiting, size)), self._lost, True
        self._tries += 1
        try:
            with strays_as_errors(self._target):
                await self._write_entries(entries)
        except Exception as error:  # noqa: BLE001 - a store is foreign code; the conversation goes on without it
            if not self._refuses(error, TRIES if self._is_last_try else self._tries):
                self._health.failed(error, self._name)
                return False
            if len(entries) > 1:
                self._apart, self._tries = len(entries), 0
                return True
            is_taken = False
            if not self._is_refusing:
                self._health.lost(error)
            if isinstance(error, StoreError):  # the store has answered
                self._health.worked(self._name)
        else:
            self._health.worked(self._name)
        self._is_refusing, self._tries, self._apart = not is_taken, 0, max(0, self._apart - len(entries))
        # Entries that were dropped meanwhile were the oldest: they are over after all, and were counted as lost.
        dropped = min(self._lost - lost_before, len(entries))
        self._lost += (0 if is_taken else len(entries)) - dropped
        for _ in range(len(entries) - dropped):
            self._take_oldest()
        return True

    @property
    def _is_last_try(self) -> bool:
        return self._context.clock.now() >= self._tries_end

    def _take_oldest(self) -> None:
        self._waiting.popleft()
        self._sizes.popleft()
