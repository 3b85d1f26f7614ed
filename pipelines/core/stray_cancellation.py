"""Stray cancellations: a CancelledError that foreign code lets out although nobody cancelled its caller.

It comes from awaiting a task or future that someone else cancelled. Let on, it passes every `except Exception`, and the
task group of whoever called takes it for the end of everything that runs there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from vivavoce.pipelines.core.errors import VoiceError


@contextmanager
def strays_as_errors(what: str) -> Iterator[None]:
    """Around foreign code, right at its `await`: make a stray cancellation an error like any other.

    Args:
        what: For the error's text, such as `"the tool book"`.
    Raises:
        VoiceError: There was one.
    """
    try:
        yield
    except anyio.get_cancelled_exc_class() as error:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        raise VoiceError(f"{what} ended with a cancellation that nobody here asked for") from error
