"""Daemon threads, which never block the end of the process: ThreadPool, and SerialThread for calls in order."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

import anyio

from vivavoce.pipelines.core.async_library import name_async_library
from vivavoce.pipelines.core.errors import contained, ends_test

P = ParamSpec("P")
T = TypeVar("T")


class ThreadExit(RuntimeError):
    """Code in a thread ended with something that no future may carry: its cause, such as `SystemExit`."""


class ThreadPool:
    """Runs functions of one event loop, each in a thread of its own, at most `size` at a time.

    A cancelled call leaves its thread running; the thread counts until it ends. The threads are daemons, unlike those
    of anyio and asyncio, so that the interpreter does not wait for them either.

    Args:
        size: Threads at a time; further functions wait.
        name: The threads' name, before their number.
    """

    def __init__(self, size: int, *, name: str = "tool") -> None:
        self._size = size
        self._name = name
        self._slots: anyio.Semaphore | None = None
        self._numbers = itertools.count(1)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of `function`, or raise its exception. If cancelled, leave the thread running."""
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
        return await result

    def _start(
        self,
        loop: asyncio.AbstractEventLoop,
        function: Callable[[], T],
        result: asyncio.Future[T],
        slots: anyio.Semaphore,
    ) -> None:
        context = contextvars.copy_context()
        context.run(name_async_library, None)  # none runs in the thread

        def returned(value: T) -> None:
            slots.release()
            if not result.done():
                result.set_result(value)

        def raised(error: BaseException) -> None:
            slots.release()
            if not result.done():
                result.set_exception(error)

        def report(call: Callable[..., None], outcome: object) -> None:
            try:
                loop.call_soon_threadsafe(call, outcome)
            except RuntimeError:
                return  # the loop is closed: no caller waits any more

        def work() -> None:
            try:
                value = context.run(function)
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                report(raised, _as_plain(error))
            else:
                report(returned, value)

        threading.Thread(target=work, name=f"{self._name}-{next(self._numbers)}", daemon=True).start()


class SerialThread(Executor):
    """Runs calls one after the other in a thread that lives while there are any.

    The thread is a daemon: a disk that hangs does not block the end of the process. Calls may come from any event loop
    or thread. Virtual time stands still during `run()`, as for any executor.

    Args:
        name: The thread's name.
        linger: Seconds for which the thread waits for a further call. To begin one for each call of many holds the
            event loop up.
    """

    def __init__(self, name: str, *, linger: float = 0.0) -> None:
        self._name = name
        self._linger = linger
        self._news = threading.Condition()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_working = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call`. If cancelled, leave a call that has begun running."""
        return await asyncio.get_running_loop().run_in_executor(self, partial(call, *args, **kwargs))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Enqueue a call; see `concurrent.futures.Executor`."""
        future: Future[T] = Future()
        with self._news:
            if not self._is_working:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._is_working = True
            self._calls.append((future, partial(fn, *args, **kwargs)))
            self._news.notify()
        return future

    def _work(self) -> None:
        while True:
            with self._news:
                if not self._calls and self._linger:
                    self._news.wait(self._linger)
                if not self._calls:
                    self._is_working = False
                    return
                future, call = self._calls.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                future.set_exception(error)
            else:
                future.set_result(result)


def _as_plain(error: BaseException) -> BaseException:
    """Return an error that a future may carry: not StopIteration, and not the `sys.exit()` of a thread."""
    if ends_test(error):
        return error
    if isinstance(error, StopIteration):
        plain = ThreadExit("the thread ended with StopIteration")
        plain.__cause__ = error
        return plain
    return contained(error, "the thread", ThreadExit)
