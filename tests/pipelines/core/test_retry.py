"""A retryable error is followed by another try: after the wait that is set, or the longer one that a provider wants."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import anyio
import pytest
from anyio import create_task_group

from vivavoce.pipelines.core.boundary import Expected
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderStatusError
from vivavoce.pipelines.core.reconnect import STABLE_AFTER, ReconnectingStream
from vivavoce.pipelines.core.retry import LONGEST_WAIT, RetryOptions, retry, retry_stream
from vivavoce.pipelines.testing import VirtualClock, run_virtual

LOST = ProviderConnectionError("lost", provider="scripted")
REFUSED = ProviderStatusError("no such key", provider="scripted", status=401, retry_after=0.5)


def busy(retry_after: float | None) -> ProviderStatusError:
    return ProviderStatusError("busy", provider="scripted", status=429, retryable=True, retry_after=retry_after)


def tries(errors: list[ProviderError], *waits: float, is_stream: bool) -> tuple[list[float], ProviderError | None]:
    """Have the first tries fail; return the times of all tries, and the error if none succeeded."""
    times: list[float] = []
    left = list(errors)

    async def attempt() -> str:
        times.append(round(clock.now(), 3))
        if left:
            raise left.pop(0)
        return "done"

    async def stream() -> AsyncGenerator[str, None]:
        yield await attempt()

    async def main() -> ProviderError | None:
        options = RetryOptions(waits=waits)
        try:
            if is_stream:
                assert [item async for item in retry_stream(stream, options)] == ["done"]
            else:
                assert await retry(attempt, options) == "done"
        except ProviderError as error:
            return error
        return None

    clock = VirtualClock()
    return times, run_virtual(main())


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("errors", "waits", "times", "is_failed"),
    [
        ([LOST, LOST], (0.1, 2.0), [0.0, 0.1, 2.1], False),
        ([LOST, LOST], (0.1,), [0.0, 0.1], True),
        ([LOST], (), [0.0], True),
        ([REFUSED], (0.1,), [0.0], True),
        ([busy(None)], (0.1,), [0.0, 0.1], False),
        ([busy(1.5), LOST], (0.1, 2.0), [0.0, 1.5, 3.5], False),
        ([busy(1.5)], (2.0,), [0.0, 2.0], False),
        ([busy(LONGEST_WAIT)], (0.1,), [0.0, LONGEST_WAIT], False),
        ([busy(60.0)], (0.1, 2.0), [0.0], True),
        ([LOST, busy(60.0)], (0.1, 2.0), [0.0, 0.1], True),
        ([busy(7.0)], (8.0,), [0.0, 8.0], False),
        ([busy(1.0)], (), [0.0], True),
    ],
)
def test_a_try_follows_after_the_wait_that_is_set_or_asked_for(
    errors: list[ProviderError], waits: tuple[float, ...], times: list[float], is_failed: bool, is_stream: bool
) -> None:
    made, error = tries(errors, *waits, is_stream=is_stream)
    assert made == times
    assert error is (errors[-1] if is_failed else None)


class Stream:
    """It serves for a time, and is lost then."""

    def __init__(self, lives: float, error: ProviderError) -> None:
        self._lives = lives
        self._error = error

    async def events(self) -> AsyncIterator[int]:
        await anyio.sleep(self._lives)
        raise self._error
        yield 1

    async def aclose(self) -> None:
        """Nothing is held."""


class Recogniser(ReconnectingStream[Stream, int]):
    """Opens the given streams one after the other."""

    def __init__(self, *streams: Stream) -> None:
        self.times: list[float] = []
        self.failures: list[bool] = []
        self._streams = list(streams)
        super().__init__(
            "scripted",
            Expected(int),
            clock=VirtualClock(),
            retries=RetryOptions(waits=(0.5,)),
            open_limit=1.0,
            on_failure=lambda _, goes_on: self.failures.append(goes_on),
        )

    async def _open(self) -> Stream:
        self.times.append(round(self._clock.now(), 3))
        return self._streams.pop(0)

    def _begin(self, stream: Stream) -> None: ...

    def _take(self, event: int) -> None: ...

    def _end(self) -> None: ...

    def _give_up(self) -> None: ...


def opened(*streams: Stream) -> Recogniser:
    async def main() -> Recogniser:
        recogniser = Recogniser(*streams, Stream(1000.0, LOST))
        async with create_task_group() as tasks:
            await tasks.start(recogniser.run)
            await anyio.sleep(100.0)
            tasks.cancel_scope.cancel()
        return recogniser

    return run_virtual(main())


@pytest.mark.parametrize(
    ("lives", "error", "second"),
    [
        (STABLE_AFTER, LOST, STABLE_AFTER),
        (1.0, LOST, 1.5),
        (STABLE_AFTER, busy(2.0), STABLE_AFTER + 2.0),
        (1.0, busy(2.0), 3.0),
    ],
)
def test_a_lost_stream_is_opened_again_when_the_provider_wants_it(
    lives: float, error: ProviderError, second: float
) -> None:
    recogniser = opened(Stream(lives, error))
    assert recogniser.times == [0.0, second]
    assert recogniser.failures == [True]


@pytest.mark.parametrize("lives", [1.0, STABLE_AFTER])
def test_a_lost_stream_whose_provider_asks_for_a_long_wait_is_given_up_at_once(lives: float) -> None:
    recogniser = opened(Stream(lives, busy(60.0)))
    assert recogniser.times == [0.0]
    assert recogniser.failures == [False]
