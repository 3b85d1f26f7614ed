"""Inbox: the inputs of a session's decision loop, in the order in which they came, and what wakes the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import anyio
import anyio.lowlevel

from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.core.errors import SessionError


class Barrier:
    """A place in the inbox: awaiting it means that everything before it is decided, and what `then` waits for is over.

    Not awaiting it is fine.
    """

    __slots__ = ("_then", "reached")

    def __init__(self, then: Callable[[], Awaitable[None]]) -> None:
        self._then = then
        self.reached = asyncio.Event()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    def reach(self) -> None:
        """Everything before it is decided."""
        self.reached.set()

    async def _wait(self) -> None:
        await self.reached.wait()
        await self._then()


class LoopCall(Barrier):
    """Something that the loop's own task is to do, such as to begin other tasks; dropped when the inbox is closed."""

    __slots__ = ("_do",)

    def __init__(self, do: Callable[[], None]) -> None:
        super().__init__(anyio.lowlevel.checkpoint)
        self._do = do

    def reach(self) -> None:
        try:
            self._do()
        finally:
            super().reach()


class InterruptedFromThread:
    """What `interrupt()` returns in a thread: it has acted, but there is no loop to wait for its effect."""

    def __await__(self) -> Generator[Any, None, None]:
        raise SessionError(
            "interrupt() was called in a thread, where it acts but cannot be awaited; to wait until the audio has "
            "stopped, await it on the session's loop"
        )


Entry = i.TurnInput | Barrier


class Inbox:
    """Putting something in is synchronous and decides nothing; `wait()` is the loop's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[Entry] = deque()
        self._wake = asyncio.Event()
        self._timer: TimerHandle | None = None
        self._timer_at: float | None = None

    def __bool__(self) -> bool:
        return bool(self._entries)

    def put(self, entry: Entry) -> None:
        """Append an entry and wake the loop."""
        self._entries.append(entry)
        self._wake.set()

    def take(self) -> Entry:
        """Return the oldest entry."""
        return self._entries.popleft()

    def wake(self) -> None:
        """Wake the loop, for events that are to be handed out."""
        self._wake.set()

    async def wait(self, deadline: float | None) -> None:
        """Wait for an entry, a wake or `deadline` (session clock)."""
        if self._entries:
            return
        self._wake = asyncio.Event()
        self._arm(deadline)
        await self._wake.wait()

    def close(self) -> None:
        """Drop the timer and what is left; whoever awaits a marker goes on."""
        self._arm(None)
        for entry in self._entries:
            if isinstance(entry, Barrier):
                entry.reached.set()
        self._entries.clear()

    def _arm(self, deadline: float | None) -> None:
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = None if deadline is None else self._clock.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = self._timer_at = None
        self._wake.set()
