"""MemoryWriter: makes a session's own writes to its store, in a task of its own, so that no turn waits for a store."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.pipelines.core.errors import SessionError, StoreTypeError, StoreValueError
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

logger = logging.getLogger(__name__)

NAME = "writer"
"""Of this part, in the store's health."""
MAX_WAITING = 1000
"""Writes that may wait for the store; then the oldest are lost."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds from a failed write to the next try; doubled each time."""

Write = Callable[[], Awaitable[object]]
"""Makes one write to the store. It is called again after a failure, therefore a write may be made twice."""


class MemoryWriter:
    """Takes writes without waiting and makes them in order.

    A write that fails is tried again, before the later ones, until the close, which tries once more. One that the store
    can never take (StoreTypeError, StoreValueError) is lost. Without a write it has no task.
    """

    def __init__(self, context: SessionContext, base: MemoryBase, health: StoreHealth) -> None:
        self._context = context
        self._base = base
        self._health = health
        self._waiting: deque[Write] = deque()
        self._news = anyio.Event()
        self._ended: anyio.Event | None = None
        self._is_open = False
        self._is_closing = False
        self._dropped = 0
        self._is_over = False

    @property
    def lost(self) -> int:
        """The writes that were lost; after the close, those that waited in vain too."""
        return self._dropped + (len(self._waiting) if self._is_over else 0)

    def open(self) -> None:
        """Begin to write, in a task of the session, as soon as there is a write."""
        self._is_open = True
        if self._waiting:
            self._begin()

    def put(self, write: Write) -> None:
        """Note a write. Call it on the session's event loop. After the close it is lost."""
        if self._is_over:
            self._dropped += 1
            return
        self._waiting.append(write)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
            self._dropped += 1
            if self._dropped == 1:
                self._health.lost(SessionError(f"the store is {MAX_WAITING} writes behind; the oldest are lost"))
        self._begin()
        self._news.set()

    def drop(self) -> None:
        """Lose the writes that wait, and all later ones: another session has the memory."""
        self._is_closing = self._is_over = True
        self._news.set()

    async def aclose(self) -> None:
        """Make the waiting writes and end; the caller limits it."""
        self._is_closing = True
        self._news.set()
        try:
            if self._ended is not None:
                await self._ended.wait()
        finally:
            self._is_over = True

    def _begin(self) -> None:
        if self._is_open and self._ended is None:
            self._ended = anyio.Event()
            self._context.group.start_soon(self._run, self._ended, name="memory")

    async def _run(self, ended: anyio.Event) -> None:
        pause = 0.0
        try:
            while not self._is_over and (self._waiting or not self._is_closing):
                # After a failure the store rests for a while; the close does not wait for that.
                with anyio.move_on_after(pause) if pause else nullcontext():
                    while not self._is_closing and (pause or not self._waiting):
                        self._news = anyio.Event()
                        await self._news.wait()
                if not self._waiting or self._is_over or await self._write():
                    pause = 0.0
                elif self._is_closing:
                    break
                else:
                    pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)
        finally:
            ended.set()

    async def _write(self) -> bool:
        """Make the oldest write; return whether it is over."""
        write = self._waiting[0]
        try:
            with strays_as_errors("the session store"):
                await self._base.within(write())
        except (StoreTypeError, StoreValueError) as error:
            self._dropped += 1
            self._health.lost(error)
        except Exception as error:  # noqa: BLE001 - a store is foreign code; the conversation goes on without it
            self._health.failed(error, NAME)
            return False
        else:
            self._health.worked(NAME)
        if self._waiting and self._waiting[0] is write:
            self._waiting.popleft()
        else:
            self._dropped -= 1  # it was counted as lost meanwhile, and is over after all
        return True
