"""LoopGuard: fails a test whose event loop is held for seconds of real time, and shows the stack."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

LOOP_LIMIT = 5.0
"""Real seconds that one callback or one step of a task may take."""
_POLL = 0.25
"""Real seconds between two checks. Checks are counted, no clock is read: a starved machine slows the count too."""
_SIGNAL = signal.SIGVTALRM
_DEBUGGERS = {"bdb", "pdb", "ipdb", "pydevd", "_pydevd_bundle", "debugpy"}


class LoopHeldError(BaseException):
    """The event loop was held: a callback, a handler or a tool computes or blocks without `await`.

    No `except Exception` can swallow it.
    """


class LoopGuard:
    """Watches the running event loop from a thread, within `with`.

    In the main thread the guard interrupts the code that holds the loop, by a signal (SIGVTALRM); elsewhere it can only
    write the stack to stderr and raise at the end. A debugger that holds the loop is no fault.

    Args:
        loop: The loop of this thread.
        limit: Real seconds.
        is_back: Returns whether the loop has made a round since the last call; by default the loop is asked.
    Raises:
        LoopHeldError: In the code that holds the loop, and from `with` if that code has swallowed it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, limit: float = LOOP_LIMIT, is_back: Callable[[], bool] | None = None
    ) -> None:
        self._is_back = is_back or _Probe(loop)
        self._limit = limit
        self._owner = threading.get_ident()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._report = ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._before: Any = None
        self._thread = threading.Thread(target=self._watch, name="loop guard", daemon=True)

    def __enter__(self) -> Self:
        if self._is_main:
            self._before = signal.signal(_SIGNAL, self._interrupt)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:  # no signal is under way from here on
            self._over.set()
        self._thread.join()
        if self._is_main:
            signal.signal(_SIGNAL, self._before)
        if self._report and not isinstance(error, LoopHeldError):
            raise LoopHeldError(self._report) from error

    def _watch(self) -> None:
        looks, limit = 0, round(self._limit / _POLL)
        while not self._over.wait(_POLL):
            looks = 0 if self._is_back() else looks + 1
            if looks >= limit:
                looks = 0
                self._hold_up()

    def _hold_up(self) -> None:
        frame = sys._current_frames().get(self._owner)
        if frame is None or _is_debugged(frame):
            return
        stack = "".join(traceback.format_stack(frame))
        report = (
            f"the event loop was not given back for {self._limit:g} s of real time; await where the code waits, or use "
            f"`await asyncio.to_thread(…)` for what computes or blocks. The loop's thread was here:\n{stack}"
        )
        if not self._report:
            sys.stderr.write(report)
        self._report = self._report or report
        with self._lock:
            if self._is_main and not self._over.is_set():
                signal.pthread_kill(self._owner, _SIGNAL)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._report:
            raise LoopHeldError(self._report)
        if callable(self._before):  # it is the guard around this one that has fired
            self._before(number, frame)


class _Probe:
    """Checks with a callback whether a loop makes rounds. A loop that does not run is not held."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_answered = True

    def __call__(self) -> bool:
        if not self._loop.is_running():
            self._is_answered = True
        if not self._is_answered:
            return False
        try:
            self._is_answered = not self._loop.is_running()
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # closed meanwhile
            self._is_answered = True
        return True

    def _answer(self) -> None:
        self._is_answered = True


def _is_debugged(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False
