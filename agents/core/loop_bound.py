"""LoopBound: what belongs to the session's loop, called from a thread such as a sync tool's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from vivavoce.pipelines.core.errors import SessionClosedError, SessionError

T = TypeVar("T")

THREAD_LIMIT = 10.0
"""Seconds that a thread waits for the loop."""
ENDED = "the session's event loop has ended"


class LoopBound:
    """Makes calls on the loop that it was bound to; before that, where they are made."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def bind(self) -> None:
        """Belong to the running loop."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    @property
    def is_bound(self) -> bool:
        """Whether it belongs to a loop by now."""
        return self._loop is not None

    @property
    def is_here(self) -> bool:
        """Whether the caller is on that loop, and not in another thread."""
        return threading.get_ident() == self._thread

    def soon(self, function: Callable[[], None]) -> None:
        """Have `function` called: at once from the loop, soon from a thread, which does not wait for it.

        Raises:
            SessionClosedError: The loop has ended.
        """
        if self._loop is None or self.is_here:
            function()
            return
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError as error:
            raise SessionClosedError(ENDED) from error

    def call(self, function: Callable[[], T]) -> T:
        """Return what `function` returns, or raise what it raises; it is quick. A thread waits until the loop made it.

        Raises:
            SessionClosedError: The loop has ended.
            SessionError: The loop is held up, so that it did not come to it.
        """
        if self._loop is None or self.is_here:
            return function()
        done: Future[T] = Future()

        def make() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(function())
            except Exception as error:  # noqa: BLE001 - handed to the thread that waits
                done.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(make)
        except RuntimeError as error:
            raise SessionClosedError(ENDED) from error
        try:
            return done.result(THREAD_LIMIT)
        except FutureTimeoutError as error:
            done.cancel()
            raise SessionError(f"the session's event loop was held up for {THREAD_LIMIT:g} s") from error
