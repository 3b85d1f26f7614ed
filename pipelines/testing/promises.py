"""Common parts of the conformance checks: requirements with readable messages, limits, checks of failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import anyio

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.buffer import FrameChunker
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import AudioChunk

T = TypeVar("T")

LIMIT = 10.0
"""Seconds that a check waits for a provider by default."""


def require(is_kept: bool, who: Component, promise: str, got: object) -> None:
    """Raise unless a promise is kept.

    Raises:
        AssertionError: It is not; the text names the provider, the promise and the finding.
    """
    if not is_kept:
        raise AssertionError(f"{who.provider}: needed {promise}, got {got!r}")


@contextmanager
def within(seconds: float, who: Component, what: str) -> Iterator[None]:
    """Limit a wait.

    Raises:
        AssertionError: It took longer.
    """
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise AssertionError(f"{who.provider}: needed {what} within {seconds} s, got nothing") from None


async def check_failure(
    attempt: Callable[[], Awaitable[object] | AsyncIterator[object]], *, limit: float = LIMIT
) -> None:
    """Check that an attempt fails by a ProviderError that names its provider.

    Args:
        attempt: Returns a request to a provider that is down, refuses or breaks off: an awaitable, or a stream that is
            then read to its end.
    Raises:
        AssertionError: It raised something else, or nothing, or hung.
    """
    try:
        with anyio.fail_after(limit):
            result = attempt()
            if isinstance(result, AsyncIterator):
                async for _ in result:
                    pass
            else:
                await result
    except ProviderError as error:
        if error.provider in ("", "unknown"):
            raise AssertionError(f"needed an error that names its provider, got {error!r}") from error
    except TimeoutError:
        raise AssertionError(f"needed a ProviderError within {limit} s, got nothing") from None
    except Exception as error:  # noqa: BLE001 - any other exception is the finding
        raise AssertionError(f"needed a ProviderError, got {error!r}; map foreign errors where they come in") from error
    else:
        raise AssertionError("needed a ProviderError, but the request succeeded")


async def check_closing(component: Component, *, limit: float = LIMIT) -> None:
    """Check that a component is closed in time, and may be closed twice."""
    with within(limit, component, "aclose() to return"):
        await component.aclose()
        await component.aclose()


def frames_of(audio: AudioFrame, rate: int, seconds: float = FRAME_SECONDS) -> list[AudioFrame]:
    """Return mono `audio` at `rate`, in frames of `seconds`."""
    resampler = Resampler(audio.sample_rate, rate)
    data = resampler.push(audio).data + resampler.flush().data
    chunker = FrameChunker(rate, seconds)
    frames = list(chunker.push(data))
    rest = chunker.flush()
    return [*frames, rest] if rest is not None else frames


def check_audio(who: Component, chunks: Sequence[AudioChunk], rate: int) -> float:
    """Check that chunks are mono audio of the promised rate with something in it; return its seconds."""
    for chunk in chunks:
        require(chunk.frame.num_channels == 1, who, "mono audio", chunk.frame)
        require(chunk.frame.sample_rate == rate, who, f"audio of {rate} Hz as its capabilities say", chunk.frame)
    require(any(any(chunk.frame.data) for chunk in chunks), who, "audible speech", f"{len(chunks)} silent chunks")
    return sum(chunk.frame.samples for chunk in chunks) / rate


async def take(stream: AsyncGenerator[T, None], count: int) -> list[T]:
    """Return the first items of a stream and close it."""
    taken = []
    try:
        async for item in stream:
            taken.append(item)
            if len(taken) == count:
                break
    finally:
        await stream.aclose()
    return taken
