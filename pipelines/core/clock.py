"""Time, injected: the port and the one that reads the running event loop.

All code that depends on time asks a `Clock`; the linter bans direct reads of `time`. So a session runs unchanged on
virtual time. Seconds are floats.
"""

from __future__ import annotations

import time
from asyncio import get_running_loop
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class TimerHandle(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Drop the call; fine when it has run already."""
        ...


class Clock(Protocol):
    """Monotonic session time, wall time for records, and timers."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean anything."""
        ...

    def wall(self) -> float:
        """Return seconds since the Unix epoch, for records read by people."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` on the event loop at `when` (of `now()`), or at once if that has passed."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Return a context in which work outside the loop (a thread) is pending: virtual time stands still in it."""
        ...


class LoopClock:
    """The time of the running event loop, virtual when the loop's is."""

    def now(self) -> float:
        return get_running_loop().time()

    def wall(self) -> float:
        return time.time()  # noqa: TID251 - the one place that reads it

    def call_at(self, when: float, callback: Callable[[], None]) -> TimerHandle:
        return get_running_loop().call_at(when, callback)

    def hold(self) -> AbstractContextManager[None]:
        # A loop of virtual time has a `hold` method. Real time cannot be held.
        hold: Callable[[], AbstractContextManager[None]] = getattr(get_running_loop(), "hold", nullcontext)
        return hold()
