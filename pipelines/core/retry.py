"""Retry of provider streams and connections: whether, how often and how far apart, by `retryable` and `retry_after`."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import anyio

from vivavoce.pipelines.core.checks import is_number
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderStatusError

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_WAIT = 5.0
"""Seconds. A provider that asks for a longer wait gets no further try: the session has another one, or says so."""

OnRetry = Callable[[Exception, int], None]
"""Called with the error of a failed try, and its number from 1, when another one follows."""

on_retry: ContextVar[OnRetry | None] = ContextVar("on_retry", default=None)
"""The listener for retries of this task, and of the tasks that it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """Number and times of the tries after a retryable error.

    Where the error has a `retry_after` (the provider asks to wait), the wait lasts at least that long. If that is more
    than 5 s, and more than the wait set here, there is no further try: the error is reported at once, since a caller
    does not wait for so long.

    Each option: docs/options.md.
    """

    waits: tuple[float, ...] = (0.1, 2.0)
    """Seconds before the second try, the third and so on; their number is the number of retries. Empty: no retry."""

    def __post_init__(self) -> None:
        if not isinstance(self.waits, tuple) or any(not is_number(wait) or wait < 0 for wait in self.waits):
            raise ConfigurationError(f"need waits as a tuple of numbers >= 0 (s), got {self.waits!r}")


def wait_before_retry(error: BaseException | None, wait: float) -> float | None:
    """Return the seconds from an error to the next try, or None if no try may follow.

    Args:
        wait: Seconds that are set for this try.
    """
    if not isinstance(error, ProviderError) or not error.retryable:
        return None
    asked = error.retry_after if isinstance(error, ProviderStatusError) else None
    if asked is None or asked <= wait:
        return wait
    return asked if asked <= LONGEST_WAIT else None


async def retry(attempt: Callable[[], Awaitable[T]], options: RetryOptions) -> T:
    """Return the result of `attempt()`, calling it again after a retryable ProviderError.

    Raises:
        ProviderError: No try may follow it, or the tries ran out; then the last one.
    """

    try:
        return await attempt()
    except ProviderError as error:
        return await _go_on_after(error, attempt, options)


async def _go_on_after(error: ProviderError, attempt: Callable[[], Awaitable[T]], options: RetryOptions) -> T:
    """The first try, which failed, was made without tenacity: that costs 30 µs, which would delay each answer."""
    failed = [error]

    async def again() -> T:
        if failed:
            raise failed.pop()
        return await attempt()

    return await _retrying(options)(again)


async def retry_stream(
    make: Callable[[], AsyncGenerator[T, None]],
    options: RetryOptions,
    is_commitment: Callable[[T], bool] = lambda _: True,
) -> AsyncGenerator[T, None]:
    """Yield the items of `make()`, making it again after a retryable error that comes before its first commitment.

    Args:
        is_commitment: Whether an item cannot be taken back; items before the first such one are held until it comes.
    Raises:
        ProviderError: As `retry()`; and any that comes later.
    """

    async def begin() -> tuple[AsyncGenerator[T, None], list[T]]:
        stream = make()
        held: list[T] = []
        async for item in stream:
            held.append(item)
            if is_commitment(item):
                break
        return stream, held

    try:
        stream, held = await begin()
    except ProviderError as error:
        stream, held = await _go_on_after(error, begin, options)
    async with aclosing(stream):
        for item in held:
            yield item
        async for item in stream:
            yield item


def _retrying(options: RetryOptions) -> AsyncRetrying:
    # Loaded by the first failure: most programs see none, and it is 5 % of the import of the public names.
    from tenacity import AsyncRetrying, stop_after_attempt

    waits = (*options.waits, 0.0)  # none follows the last try

    def wait_after(state: RetryCallState) -> float | None:
        assert state.outcome is not None
        return wait_before_retry(state.outcome.exception(), waits[state.attempt_number - 1])

    return AsyncRetrying(
        retry=lambda state: wait_after(state) is not None,
        stop=stop_after_attempt(len(waits)),
        wait=lambda state: wait_after(state) or 0.0,
        sleep=anyio.sleep,
        before_sleep=_log,
        reraise=True,
    )


def _log(state: RetryCallState) -> None:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, ProviderError)
    report_retry(error, state.attempt_number)


def report_retry(error: ProviderError, attempt: int) -> None:
    """Report that try number `attempt`, from 1, has failed and another one follows."""
    logger.warning("try %d failed, next one follows: %s", attempt, error)
    listener = on_retry.get()
    if listener is not None:
        listener(error, attempt)
