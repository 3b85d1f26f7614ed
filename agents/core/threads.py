"""ThreadPool: sync tools in daemon threads, never more than a cap, none of which can hold the process up."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio

from vivavoce.pipelines.core.errors import first_error

T = TypeVar("T")


class ThreadPool:
    """Runs functions in threads of its own, on one event loop's behalf.

    A thread that is no longer waited for goes on, and counts until it ends. Threads are daemons, unlike anyio's and
    asyncio's, so that the interpreter does not wait for them either.

    Args:
        size: Threads at a time; more functions wait.
        name: Of the threads, before their number.
    """

    def __init__(self, size: int, *, name: str = "tool") -> None:
        self._size = size
        self._name = name
        self._slots: anyio.Semaphore | None = None
        self._numbers = itertools.count(1)
        self.abandoned = 0
        """Threads that were no longer waited for when they were cancelled, ended since or not."""

    async def run(self, function: Callable[[], T]) -> T:
        """Return what `function` returns, or raise what it raises. Cancelled, it leaves the thread alone."""
        if self._slots is None:  # made on the loop
            self._slots = anyio.Semaphore(self._size)
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        try:
            self._start(loop, function, result, self._slots)
        except BaseException:  # no thread could be started
            self._slots.release()
            raise
        try:
            return await result
        except asyncio.CancelledError:
            self.abandoned += 1
            raise

    def _start(
        self,
        loop: asyncio.AbstractEventLoop,
        function: Callable[[], T],
        result: asyncio.Future[T],
        slots: anyio.Semaphore,
    ) -> None:
        context = contextvars.copy_context()
        sniffio = sys.modules.get("sniffio")  # it says which async library runs here; in the thread none does
        if sniffio is not None:
            context.run(sniffio.current_async_library_cvar.set, None)

        def returned(value: T) -> None:
            slots.release()
            if not result.done():
                result.set_result(value)

        def raised(error: Exception) -> None:
            slots.release()
            if not result.done():
                result.set_exception(error)

        def tell(call: Callable[..., None], outcome: object) -> None:
            try:
                loop.call_soon_threadsafe(call, outcome)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        def work() -> None:
            try:
                value = context.run(function)
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                tell(raised, _as_plain(error))
            else:
                tell(returned, value)

        threading.Thread(target=work, name=f"{self._name}-{next(self._numbers)}", daemon=True).start()


def _as_plain(error: BaseException) -> Exception:
    """Return what a future may carry: a thread's `sys.exit()` is not the session's, and StopIteration is refused."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return ended_with(error, "the thread")


def ended_with(error: BaseException, what: str) -> RuntimeError:
    """Return the error of foreign code that ended with an exception that is not to get any further."""
    plain = RuntimeError(f"{what} ended with {type(first_error(error)).__name__}")
    plain.__cause__ = error
    return plain
