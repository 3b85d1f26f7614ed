"""Application code: whatever it raises beside an exception becomes an error, and ends no call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, ClassVar

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.pipelines.core.errors import SessionError, first_error
from vivavoce.pipelines.core.stray_cancellation import is_cancelled, strays_as_errors


class application_code(strays_as_errors):  # noqa: N801 - read as a phrase: with application_code("llm_stage")
    """Used around the application's code, right at its call: whatever leaves the block is an `Exception`.

    `SystemExit` and `KeyboardInterrupt` would end the event loop, and with it every session in it; any other
    `BaseException`, `GeneratorExit` too, would end the session. A real Ctrl-C is no exception in the code that runs:
    asyncio cancels the main task.

    A cancellation passes if an anyio scope has asked for it, as all of a session's do. Code that cancels its own task
    has failed; `async with` takes away the cancellation that such code leaves behind for the next wait of its task.

    Raises:
        SessionError: The code wanted to end the process, raised some other `BaseException`, or cancelled its own task.
        VoiceError: There was a stray cancellation.
    """

    __slots__ = ("_cancels", "_has_cancelled", "_task")

    failure: ClassVar[type[Exception]] = SessionError

    def __enter__(self) -> None:
        self._has_cancelled = False
        self._task = task = _current_task()
        self._cancels = 0 if task is None else task.cancelling()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        task = self._task
        if task is not None and take_back_cancellations(self._cancels, task):
            self._has_cancelled = True
            if error is None or isinstance(error, asyncio.CancelledError):
                raise self.failure(f"{self._what} ended with the cancellation of its own task") from error
        if error is None or isinstance(error, Exception):
            return
        if isinstance(error, asyncio.CancelledError):
            super().__exit__(kind, error, trace)
        elif not isinstance(error, GeneratorExit) or task is None or task is _current_task():
            problem = f"{self._what} ended with {type(first_error(error)).__name__}"
            raise self.failure(problem).with_traceback(error.__traceback__) from error
        # Otherwise the coroutine is closed, by a loop that has ended.

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.__exit__(kind, error, trace)
        finally:
            if self._has_cancelled:
                await drop_stray_cancellation()


class drops_cancellations:  # noqa: N801 - read as a phrase
    """Around a wait of a task that calls the application's functions: the task goes on after a function cancelled it.

    Args:
        report: Called with the error and `source`, unless `application_code` has reported the function.
    """

    __slots__ = ("_report", "_source")

    def __init__(self, report: Callable[[Exception, str], None], source: str) -> None:
        self._report = report
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, asyncio.CancelledError) or is_scope_cancelled():
            return False
        if take_back_cancellations(0):
            self._report(
                SessionError(f"code of the application has cancelled the task of the {self._source}"), self._source
            )
        return True


async def drop_stray_cancellation() -> None:
    """Take the cancellation that code has left behind for the next wait of its task."""
    try:
        await checkpoint()
    except asyncio.CancelledError:
        if is_cancelled():
            raise


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # in a thread, or in a loop's callback
        return None


def take_back_cancellations(before: int, task: asyncio.Task[Any] | None = None) -> bool:
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
