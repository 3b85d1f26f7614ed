"""Application code: whatever it raises beside an exception becomes an error, and ends no call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, ClassVar

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.agents.core.threads import ThreadExit
from vivavoce.pipelines.core.errors import SessionError, contained, ends_test
from vivavoce.pipelines.core.stray_cancellation import is_cancelled, strays_as_errors

_Task = asyncio.Task[Any]

_reader: ContextVar[_Task | None] = ContextVar("reads_streams", default=None)
"""The task of the code in `reads_streams`."""


class application_code(strays_as_errors):  # noqa: N801 - read as a phrase: with application_code("llm_stage")
    """Used around the application's code, right at its call: whatever leaves the block is an `Exception`.

    `SystemExit` and `KeyboardInterrupt` would end the event loop, and with it every session in it; any other
    `BaseException`, `GeneratorExit` too, would end the session. A real Ctrl-C is no exception in the code that runs:
    asyncio cancels the main task. What ends a test passes (`ends_test`).

    Code that cancels its own task has failed: in a session's tasks, anyio's scopes alone ask for cancellations. `with`
    is for code that cannot wait, `async with` for code that can: it takes away the cancellation that the code leaves
    behind for the next wait of its task, and lets pass a cancellation that other application code may have asked for,
    as `asyncio.timeout()` and `asyncio.wait_for()` do: code in `reads_streams` around it, or code that made its task.

    Raises:
        SessionError: The code wanted to end the process, raised some other `BaseException`, or cancelled its own task.
        VoiceError: There was a stray cancellation.
    """

    __slots__ = ("_cancels", "_has_cancelled", "_is_of_others", "_task")

    failure: ClassVar[type[Exception]] = SessionError

    def __enter__(self) -> None:
        self._has_cancelled = self._is_of_others = False
        self._task = task = _current_task()
        self._cancels = 0 if task is None else task.cancelling()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and ends_test(error):
            return
        task = self._task
        if task is not None and not self._is_of_others and take_back_cancellations(self._cancels, task):
            self._has_cancelled = True
            if error is None or isinstance(error, asyncio.CancelledError):
                raise self.failure(f"{self._what} ended with the cancellation of its own task") from error
        if isinstance(error, ThreadExit):
            error = error.__cause__
            assert error is not None, "it has a cause"
            raise self.failure(f"{self._what} ended with {type(error).__name__}") from error
        if error is None or isinstance(error, Exception):
            return
        if isinstance(error, asyncio.CancelledError):
            super().__exit__(kind, error, trace)
        elif not isinstance(error, GeneratorExit) or task is None or task is _current_task():
            raise contained(error, self._what, self.failure) from error
        # Otherwise the coroutine is closed, by a loop that has ended.

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        task = self._task
        if task is not None and task.cancelling() > self._cancels:
            self._is_of_others = _reader.get() is task or anyio.get_current_task().parent_id is None
        try:
            self.__exit__(kind, error, trace)
        finally:
            if self._has_cancelled:
                await drop_stray_cancellation()


class reads_streams:  # noqa: N801 - read as a phrase
    """Around application code that reads streams of the session, and so runs other application code in its task."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer = _reader.get()
        _reader.set(_current_task())

    def __exit__(self, *_: object) -> None:
        _reader.set(self._outer)


class outside_of_tasks:  # noqa: N801 - read as a phrase
    """Around application code on the audio path, where no wait can take back a cancellation: it runs as a callback of
    the loop does, so that it has no task to cancel."""

    __slots__ = ("_task",)

    def __enter__(self) -> None:
        self._task = task = _current_task()
        if task is not None:
            asyncio.tasks._leave_task(task.get_loop(), task)

    def __exit__(self, *_: object) -> None:
        if (task := self._task) is not None:
            asyncio.tasks._enter_task(task.get_loop(), task)


async def repeat(call: Callable[[], Awaitable[None]], cancelled: Callable[[], None]) -> None:
    """Make a call again and again, until a scope is cancelled. It may call application code that cancels its task.

    Args:
        cancelled: Called after the task was cancelled, unless `application_code` has reported the code.
    """
    while True:
        try:
            await call()
        except asyncio.CancelledError:
            if is_scope_cancelled():
                raise
            if take_back_cancellations(0):
                await checkpoint()  # at the end of its event loop the session is cancelled too, and closes
                cancelled()


async def drop_stray_cancellation() -> None:
    """Take the cancellation that code has left behind for the next wait of its task."""
    try:
        await checkpoint()
    except asyncio.CancelledError:
        if is_cancelled():
            raise


def _current_task() -> _Task | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # in a thread, or in a loop's callback
        return None


def take_back_cancellations(before: int, task: _Task | None = None) -> bool:
    """Take back the cancellations of the running task beyond the first `before`, unless a scope has asked for them.

    Returns:
        Whether there were any.
    """
    task = task or _current_task()
    if task is None or task.cancelling() <= before or is_scope_cancelled():
        return False
    while task.cancelling() > before:
        task.uncancel()
    return True


def is_scope_cancelled() -> bool:
    """Return whether an anyio scope around the running task is cancelled."""
    return anyio.current_effective_deadline() == -math.inf
