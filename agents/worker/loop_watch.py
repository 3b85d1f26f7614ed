"""LoopWatch: notices code that blocks the event loop, while it does so, and finds the code by its stack."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from types import FrameType

import anyio

logger = logging.getLogger(__name__)

LOOKS = 4
"""Looks at the loop in each limit."""

FRAMES = 25
"""Frames of a stack, from the innermost on."""


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
        self._alive_at = 0.0
        self._stack = ""
        self._has_ended = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        self._alive_at = loop.time()
        thread = threading.Thread(
            target=self._look, args=(loop, threading.get_ident()), name="vivavoce loop watch", daemon=True
        )
        thread.start()
        try:
            while True:
                await anyio.sleep(self._limit / LOOKS)
                self._give_sign(loop.time())
        finally:
            self._has_ended.set()
            thread.join()

    def _give_sign(self, now: float) -> None:
        silence, self._alive_at = now - self._alive_at, now
        stack, self._stack = self._stack, ""
        if stack:
            logger.warning("the event loop runs again; it was blocked for %.1f s", silence)
            self._on_over(Blockage(seconds=silence, stack=stack))

    def _look(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        alive_at, looks = 0.0, 0
        while not self._has_ended.wait(self._limit / LOOKS):
            if self._alive_at != alive_at:
                alive_at, looks = self._alive_at, 0
                continue
            looks += 1  # looks are counted, not seconds: in a process that gets no processor this thread waits too
            if looks != LOOKS:
                continue
            frame = sys._current_frames().get(thread_id)
            stack = _described(frame)
            if frame is None or self._alive_at != alive_at:
                continue  # it runs again, and the stack is that of other code
            self._stack = stack
            logger.warning(
                "the event loop is blocked for %.1f s, and all calls of this process wait: the code must await, or run "
                "in a thread (anyio.to_thread.run_sync). It is at, innermost first:\n%s",
                loop.time() - alive_at,
                self._stack,
            )


def _described(frame: FrameType | None) -> str:
    """Return place and function of each frame, up to the event loop's own."""
    stack = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=FRAMES, lookup_lines=False)
    code = takewhile(lambda at: not at.filename.endswith("asyncio/events.py"), stack)
    return "\n".join(f"{at.filename}:{at.lineno} in {at.name}" for at in code)
