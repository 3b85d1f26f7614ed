"""Reopening: a component's stream that works without waiting, such as a VAD's, opened again when its code fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from vivavoce.pipelines.core.boundary import Closable, as_provider_error, close_stream, provider_errors
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ProviderError

logger = logging.getLogger(__name__)

FAILURES = 3
"""Failures in a row after which a stream is given up."""

STABLE_AFTER = 5.0
"""A stream that worked for this many seconds begins a new row."""


S = TypeVar("S", bound=Closable)

OnFailure = Callable[[ProviderError, bool], None]
"""Called with each failure, and with True if the stream is given up."""


class Reopening(Generic[S]):
    """One session's stream of a component, which a new stream replaces after a failure.

    Args:
        make: Opens a stream.
        provider: Name for errors and logs.
        on_failure: Called after the next stream is open.
    """

    def __init__(self, make: Callable[[], S], provider: str, *, clock: Clock, on_failure: OnFailure) -> None:
        self._make = make
        self.provider = provider
        self._clock = clock
        self._on_failure = on_failure
        self._failures = 0
        self._opened_at = 0.0
        self.stream: S | None = None
        """None before `open()`, after `close()`, and once it is given up."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider})"

    def open(self) -> None:
        """Open the first stream.

        Raises:
            ProviderError: It cannot be opened.
        """
        self._opened_at = self._clock.now()  # also if the try fails: the age of the older stream does not count
        with provider_errors(self.provider):
            self.stream = self._make()

    def failed(self, error: BaseException) -> None:
        """Replace the stream that raised `error`, or give it up."""
        if self._clock.now() - self._opened_at >= STABLE_AFTER:
            self._failures = 0
        self.close()
        failure = as_provider_error(error, self.provider)
        logger.warning("lost a stream: %s", failure)
        self._failures += 1
        again: ProviderError | None = None
        if self._failures < FAILURES:
            try:
                self.open()
            except ProviderError as cannot:
                again = cannot
        self._on_failure(failure, self._failures >= FAILURES)
        if again is not None:
            self.failed(again)

    def close(self) -> None:
        """Close the stream; if that fails, the stream is abandoned."""
        stream, self.stream = self.stream, None
        if stream is not None:
            close_stream(stream, self.provider)
