"""Virtual time: an event loop whose clock jumps to the next timer when no work is left, and the Clock on it.

Hours pass in milliseconds and every time is exact: the loop's time is set to the exact float of a timer, and never
summed up.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from itertools import count
from typing import Any, TypeVar, TypeVarTuple, Unpack

from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.testing.loop_guard import LOOP_LIMIT, LoopGuard

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1767225600.0
"""The result of `VirtualClock.wall()` at virtual time 0: 2026-01-01 00:00:00 UTC."""

FOREIGN_LIMIT = 10.0
"""Real seconds that the loop waits for a held thread or a real file descriptor before it gives up."""

_SLICE = 0.25
"""Real seconds of one wait. Waits are counted: where the whole machine stood still, the thread gets time to go on."""

ROUNDS_LIMIT = 200_000
"""Rounds of the loop at one instant after which time counts as standing still for ever."""


class VirtualTimeError(AssertionError):
    """A test stands still: nothing is scheduled, a thread does not return, or virtual time ran past its limit."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` begins at 0.0, stands still while work is pending and jumps to the next timer.

    A step that holds the loop for seconds of real time fails (`LoopGuard`), and so does work that never lets time pass.

    Work in threads of `run_in_executor` (so `asyncio.to_thread` too) holds time; other threads call `hold()`, as
    `Clock.hold()` does.

    Args:
        limit: Virtual seconds after which a test counts as endless.
        held_limit: Real seconds that one step may hold the loop.
    Raises:
        VirtualTimeError: From the call that runs the loop; see there.
        LoopHeldError: Likewise, and in the step that holds the loop.
    """

    def __init__(self, limit: float = 3600.0, *, held_limit: float = LOOP_LIMIT) -> None:
        self._now = 0.0
        self._limit = limit
        self._held_limit = held_limit
        self._holds = 0
        self._rounds = 0
        self._rounds_at_once = 0
        self._rounds_seen = -1
        self._is_waiting = False
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        super().__init__(_VirtualSelector(self))
        self._set_time(0.0)

    def time(self) -> float:
        """Return virtual seconds."""
        return self._now

    def run_forever(self) -> None:
        """Run as asyncio does, under a `LoopGuard`."""
        with LoopGuard(self, limit=self._held_limit, is_back=self._has_come_round):
            super().run_forever()

    def timers_left(self) -> int:
        """Return how many timers wait for a later time."""
        return sum(not timer.cancelled() and when > self._now for when, _, timer in self._timers)

    def _has_come_round(self) -> bool:
        seen, self._rounds_seen = self._rounds_seen, self._rounds
        return self._is_waiting or seen != self._rounds_seen

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Do as asyncio does, and note the time to jump to."""
        timer = super().call_at(when, callback, *args, context=context)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Do as asyncio does, and hold the time until the thread is done."""
        future = super().run_in_executor(executor, func, *args)
        self._holds += 1
        future.add_done_callback(self._let_go)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Do as asyncio does, and hold the time meanwhile."""
        with self.hold():
            await super().shutdown_default_executor(*args, **kwargs)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Return a context in which time stands still, for work that the loop cannot see."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def _come_round(self) -> None:
        """Count a round; called before each check of what is ready."""
        self._rounds += 1
        self._rounds_at_once += 1
        if self._rounds_at_once > ROUNDS_LIMIT and not self._holds:
            self._rounds_at_once = 0  # so that the loop can be closed
            raise self._stuck(f"time stands still after {ROUNDS_LIMIT} rounds: something is done again and again")

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """Return a context for a wait in real time, which does not hold the time."""
        self._is_waiting, self._rounds_at_once = True, 0
        try:
            yield
        finally:
            self._is_waiting = False

    def _let_go(self, _: object) -> None:
        self._holds -= 1

    def _set_time(self, now: float) -> None:
        self._now = now
        self._rounds_at_once = 0
        # asyncio runs the timers due before now + resolution; one unit in the last place leaves those of exactly now.
        self._clock_resolution = math.ulp(now)

    def _advance(self) -> None:
        """Jump to the next timer; called when nothing is ready."""
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= self._now):
            heapq.heappop(self._timers)
        if not self._timers:
            raise self._stuck("nothing is scheduled and nothing is ready, so the test waits for ever")
        when = self._timers[0][0]
        if when > self._limit:
            raise self._stuck(f"the next timer is at {when!r} s, past the limit of {self._limit!r} s")
        self._set_time(when)

    def _stuck(self, what: str) -> VirtualTimeError:
        tasks = "\n".join(f"  {task.get_name()}: {task.get_coro()!r}" for task in asyncio.all_tasks(self))
        return VirtualTimeError(
            f"virtual time {self._now!r} s: {what}; wake what waits, or hold the clock (Clock.hold()) around work in "
            f"a thread. Tasks:\n{tasks}"
        )


class _VirtualSelector(selectors.DefaultSelector):
    """Never waits in real time, unless for a held thread or a foreign file descriptor."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop._come_round()
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        loop = self._loop
        is_foreign = timeout is None and len(self.get_map()) > 1  # more than the loop's own pipe
        if not loop._holds and not is_foreign:
            loop._advance()
            return ready
        with loop._waits():
            for _ in range(round(FOREIGN_LIMIT / _SLICE)):
                if ready := super().select(_SLICE):
                    return ready
        raise loop._stuck(f"a thread or descriptor was silent for {FOREIGN_LIMIT} real seconds")


class VirtualClock:
    """The `Clock` of a session that runs on a `VirtualTimeLoop`."""

    def __init__(self, epoch: float = EPOCH) -> None:
        self._epoch = epoch
        self._seconds = 0.0

    def now(self) -> float:
        """Return virtual seconds."""
        self._seconds = _loop().time()
        return self._seconds

    def wall(self) -> float:
        """Return `epoch` plus the virtual seconds; in other threads and after the loop plus those of the last call."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._epoch + self._seconds
        return self._epoch + self.now()

    def call_at(self, when: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` at virtual time `when`, or at once if that has passed."""
        return _loop().call_at(when, callback)

    def hold(self) -> AbstractContextManager[None]:
        """Return a context in which time stands still."""
        return _loop().hold()


def run_virtual(main: Coroutine[Any, Any, T], *, limit: float = 3600.0, held_limit: float = LOOP_LIMIT) -> T:
    """Run `main` on a `VirtualTimeLoop` of its own from 0.0, close the loop and return the result.

    Args:
        limit: Virtual seconds after which the run counts as endless.
        held_limit: Real seconds that one step may hold the loop.
    Raises:
        VirtualTimeError: It waits for ever.
        LoopHeldError: A step holds the loop.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(limit, held_limit=held_limit)) as runner:
        return runner.run(main)


def _loop() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise ConfigurationError(f"needed a running VirtualTimeLoop, got {loop!r}; use run_virtual(), or LoopClock")
    return loop
