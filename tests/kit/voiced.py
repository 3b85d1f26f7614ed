"""A voice's speech in a test: text in pieces, the chunks to their end, their words and their samples."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import anyio
import pytest

from kit.limits import LIMIT
from kit.net_users import check_clean
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.tts.base import TTS, AudioChunk

LONG = " ".join(f"word{number}" for number in range(40)) + "."


async def pieces(*texts: str) -> AsyncGenerator[str, None]:
    """Yield a text as it comes."""
    for text in texts:
        yield text


async def hear(chunks: AsyncIterator[AudioChunk], spoken: list[AudioChunk], limit: float = LIMIT) -> None:
    """Add the chunks of a speech to `spoken`, to its end."""
    with anyio.fail_after(limit):
        async for chunk in chunks:
            spoken.append(chunk)


async def heard(chunks: AsyncIterator[AudioChunk], limit: float = LIMIT) -> list[AudioChunk]:
    """Return the chunks of a speech."""
    spoken: list[AudioChunk] = []
    await hear(chunks, spoken, limit)
    return spoken


async def cut_off(tts: TTS, text: str = LONG) -> None:
    """Begin to speak, and close the speech behind its first audio."""
    async with aclosing(tts.stream(pieces(text))) as chunks:
        async for chunk in chunks:
            if chunk.frame.data:
                break


def words(chunks: list[AudioChunk]) -> list[tuple[str, float, float]]:
    """Return the words with their times."""
    return [(word.text, round(word.start, 3), round(word.end, 3)) for chunk in chunks for word in chunk.words]


def levels(chunks: list[AudioChunk]) -> set[int]:
    """Return the sizes of all samples: each context of a twin has its own."""
    return {abs(sample) for chunk in chunks for (sample,) in struct.iter_unpack("<h", chunk.frame.data)}


def at_quarters(text: str) -> list[tuple[str, float, float]]:
    """Return the words of a text, each of a quarter of a second."""
    return [(word, number * 0.25, (number + 1) * 0.25) for number, word in enumerate(text.split())]


async def error_of(key: str, chunks: AsyncIterator[AudioChunk]) -> ProviderError:
    """Return the error of a speech, which does not show the key."""
    with pytest.raises(ProviderError) as caught:
        await heard(chunks)
    check_clean(caught.value, key)
    return caught.value
