"""BoundedThread: work that computes, off the event loop, in at most one thread of it at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class BoundedThread:
    """Runs one piece of work after the other, in the order of their calls; each event loop has a thread of its own.

    The thread is one of anyio's, which begins in the process that uses it: a fork has nothing to lose.
    """

    def __init__(self, name: str) -> None:
        self._limiter: RunVar[CapacityLimiter] = RunVar(name)

    @property
    def is_busy(self) -> bool:
        """Whether work runs or waits; only for code in an event loop."""
        return bool(self._of_this_loop().borrowed_tokens)

    async def run(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return what `work` returns.

        A cancelled caller does not wait for it: work that has begun ends on its own, and the next waits for that.
        """
        limiter, loop, claim = self._of_this_loop(), asyncio.get_running_loop(), threading.Lock()

        def alone() -> T:
            if not claim.acquire(blocking=False):
                raise RuntimeError("the caller was cancelled before the work began")
            try:
                return work(*arguments)
            finally:
                loop.call_soon_threadsafe(limiter.release_on_behalf_of, claim)

        await limiter.acquire_on_behalf_of(claim)
        try:
            return await to_thread.run_sync(alone, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        finally:
            if claim.acquire(blocking=False):  # the work has not begun
                limiter.release_on_behalf_of(claim)

    def _of_this_loop(self) -> CapacityLimiter:
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(1)
            self._limiter.set(limiter)
        return limiter
