"""Done: an end that code on any event loop may wait for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Lock


class Done:
    """The end of one thing: it is set once, and tasks of any event loop wait for it.

    An event of asyncio or anyio wakes the tasks of its own loop only.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        """Return whether the end has come."""
        return self._is_set

    def set(self) -> None:
        """Note the end, and wake all tasks that wait for it."""
        with self._lock:
            self._is_set = True
            waiting, self._waiting = self._waiting, []
        here = _running_loop() if waiting else None
        for future in waiting:
            if (loop := future.get_loop()) is here:
                _wake(future)
            else:
                with suppress(RuntimeError):  # that loop has ended, and with it the task that waited
                    loop.call_soon_threadsafe(_wake, future)

    async def wait(self) -> None:
        """Wait for the end."""
        with self._lock:
            if self._is_set:
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
        try:
            await future
        finally:
            with self._lock:
                if future in self._waiting:  # the wait was cancelled
                    self._waiting.remove(future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
