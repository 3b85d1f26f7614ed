"""LoopWatch: notices code that blocks the event loop, while it does so, and finds the code by its stack."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from types import FrameType

import anyio

logger = logging.getLogger(__name__)

LOOKS = 4
"""Looks at the loop in each limit."""

FRAMES = 25
"""Frames of a stack, from the innermost on."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time of the loop, and the processor time that the loop's thread had used by then; both in seconds."""

    at: float
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockage:
    """A time for which the event loop could not run.

    Args:
        seconds: Its length; the code took up to a quarter of the limit less.
        stack: Place and function of each frame, without values and without source lines.
    """

    seconds: float
    stack: str


class LoopWatch:
    """Watches the event loop that it runs on: its tasks give a sign of life, and a thread looks for it.

    Args:
        limit: Seconds without a sign of life after which the loop counts as blocked; its stack is logged at once.
        on_over: Called on the loop when it runs again.
    """

    def __init__(self, limit: float, on_over: Callable[[Blockage], None]) -> None:
        self._limit = limit
        self._on_over = on_over
        self._sign = _Moment(0.0, 0.0)
        self._stack = ""
        self._has_ended = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        thread_id = threading.get_ident()
        used = _processor_time(thread_id)
        self._sign = _Moment(loop.time(), used())
        thread = threading.Thread(
            target=self._look, args=(loop, thread_id, used), name="vivavoce loop watch", daemon=True
        )
        thread.start()
        try:
            while True:
                await anyio.sleep(self._limit / LOOKS)
                self._give_sign(_Moment(loop.time(), used()))
        finally:
            self._has_ended.set()
            thread.join()

    def _give_sign(self, sign: _Moment) -> None:
        silence, self._sign = sign.at - self._sign.at, sign
        stack, self._stack = self._stack, ""
        if stack:
            logger.warning("the event loop runs again; it was blocked for %.1f s", silence)
            self._on_over(Blockage(seconds=silence, stack=stack))

    def _look(self, loop: asyncio.AbstractEventLoop, thread_id: int, used: Callable[[], float]) -> None:
        """Count looks without a sign of life, and report the code when there are `LOOKS`.

        Looks are counted, not seconds: in a process that gets no processor this thread waits too. It also waits while
        the loop's thread is in a call that holds the interpreter's lock. That call uses the processor, so its time
        counts for the looks that were missed. When the call returns, the interpreter lets this thread run first, and
        so the late look still sees the stack of the call.
        """
        between = self._limit / LOOKS
        sign = before = self._sign
        looks, is_reported = 0, False
        while not self._has_ended.wait(between):
            least = 1
            if self._sign is not sign:
                sign = before = self._sign
                looks, is_reported, least = 0, False, 0
            now = _Moment(loop.time(), used())
            looks += max(least, int(min(now.used - before.used, now.at - before.at) / between))
            before = now
            if looks < LOOKS or is_reported:
                continue
            frame = sys._current_frames().get(thread_id)
            stack = _described(frame)
            if frame is None or self._sign is not sign:
                continue  # it runs again, and the stack is that of other code
            self._stack, is_reported = stack, True
            logger.warning(
                "the event loop is blocked for %.1f s, and all calls of this process wait: the code must await, or run "
                "in a thread (anyio.to_thread.run_sync). It is at, innermost first:\n%s",
                loop.time() - sign.at,
                stack,
            )


def _processor_time(thread_id: int) -> Callable[[], float]:
    """Return a clock of the processor time, in seconds, that a running thread of this process has used."""
    if sys.platform == "linux":
        clock = time.pthread_getcpuclockid(thread_id)
        return partial(time.clock_gettime, clock)  # noqa: TID251 - processor time, which no Clock has
    # The time of the whole process has that of its other threads too. It counts for no more than the time that passed,
    # so at worst a loop that got no processor, in a process whose other threads did, is reported as blocked.
    return time.process_time


def _described(frame: FrameType | None) -> str:
    """Return place and function of each frame, up to the event loop's own.

    It opens no file, as the functions of `traceback` may: the loop's thread would run on meanwhile.
    """
    stack = islice(traceback.walk_stack(frame), FRAMES)
    places = ((at.f_code.co_filename, line, at.f_code.co_name) for at, line in stack)
    code = takewhile(lambda place: not place[0].endswith("asyncio/events.py"), places)
    return "\n".join(f"{file}:{line} in {name}" for file, line, name in code)
