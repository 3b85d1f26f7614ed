"""Stray cancellations: a CancelledError that foreign code raises although its caller was not cancelled.

Its cause is that the code awaits a task or future which other code cancelled. It passes every `except Exception`, and
the caller's task group would end all its tasks.
"""

from __future__ import annotations

import asyncio
import math

import anyio

from vivavoce.pipelines.core.errors import VoiceError


def is_cancelled() -> bool:
    """Return whether the running task is cancelled: by an anyio scope, or by asyncio, as `asyncio.timeout()` does."""
    task = asyncio.current_task()
    return (task is not None and task.cancelling() > 0) or anyio.current_effective_deadline() == -math.inf


class strays_as_errors:  # noqa: N801 - read as a phrase: with strays_as_errors("the tool book")
    """Used around foreign code, right at its `await`: makes a stray cancellation an error like any other.

    A class and not a generator: it is in the path of each answer, and this way costs two calls instead of eight.

    Args:
        what: For the error's text, for example `"the tool book"`.
    Raises:
        VoiceError: There was one.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, asyncio.CancelledError) and not is_cancelled():
            raise VoiceError(f"{self._what} ended with a cancellation that nobody here asked for") from error
