"""Common parts of the scripted providers: script steps, exact waits, tone of an exact length, script errors."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache

import anyio

from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.core.words import pieces
from vivavoce.pipelines.llm.base import Done, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.stt.base import STTWord

HANG = math.inf
"""In a script: wait for ever."""

LEVEL = 1000
"""Sample value of scripted speech; silence is 0."""

StepItem = str | float | int | ToolCall | Usage | Done | Exception
"""A piece of an answer: text, seconds to wait (`HANG`: for ever), tool call, usage, end, error to raise."""

Step = str | Sequence[StepItem]
"""One answer: text alone, or its pieces in order. `Done` is added at the end."""


class ScriptError(AssertionError):
    """The code under test made more, or fewer, requests than the script has steps."""


def items(step: Step) -> tuple[StepItem, ...]:
    """Return the pieces of a step.

    Raises:
        TypeError: It is a single piece, or holds something else.
    """
    if isinstance(step, StepItem) and not isinstance(step, str):
        raise TypeError(f"a step is text or a list of pieces, got {step!r}; put it in a list")
    pieces = (step,) if isinstance(step, str) else tuple(step)
    for piece in pieces:
        if not isinstance(piece, StepItem):
            raise TypeError(f"a step holds text, seconds, ToolCall, Usage, Done or exceptions, got {piece!r}")
    return pieces


def lost(provider: str) -> ProviderConnectionError:
    """Return the default error of scripted providers; it is retryable."""
    return ProviderConnectionError("the script cut the connection", provider=provider)


async def wait(seconds: float) -> None:
    """Sleep; `HANG` for ever, 0 not even one loop iteration."""
    if seconds == HANG:
        await anyio.sleep_forever()
    if seconds > 0:
        await anyio.sleep(seconds)


async def play(step: Sequence[StepItem]) -> AsyncGenerator[LLMEvent, None]:
    """Yield a step's events at their times, `Done` last, and raise its exceptions."""
    for item in step:
        if isinstance(item, Exception):
            raise item
        if isinstance(item, int | float):
            await wait(item)
        else:
            yield TextDelta(item) if isinstance(item, str) else item
    if not step or not isinstance(step[-1], Done):
        yield Done()


@lru_cache(maxsize=64)
def tone(samples: int, sample_rate: int) -> AudioFrame:
    """Return `samples` samples of scripted speech: a constant, so that every sample counts and none is silent."""
    return AudioFrame(LEVEL.to_bytes(2, "little") * samples, sample_rate)


def tone_chunks(seconds: float, sample_rate: int, chunk: float = FRAME_SECONDS) -> list[AudioFrame]:
    """Return `seconds` of scripted speech in pieces of `chunk` seconds, exact to the sample."""
    left, size = round(seconds * sample_rate), round(chunk * sample_rate)
    return [tone(min(size, left - start), sample_rate) for start in range(0, left, size)]


def words_at(start: float, text: str, *, seconds: float = 0.2, speaker: str = "") -> tuple[STTWord, ...]:
    """Return the words of `text` as a recogniser reports them, of one length each.

    Args:
        start: Seconds of the stream's audio at which the first one begins.
        seconds: Length of each word.
    """
    found = enumerate(text[begin:end] for begin, end in pieces(text))
    return tuple(
        STTWord(text=word, start=start + at * seconds, end=start + (at + 1) * seconds, speaker=speaker)
        for at, word in found
    )
