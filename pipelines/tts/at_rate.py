"""Changes the sample rate of speech."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import AudioChunk


async def at_rate(chunks: AsyncGenerator[AudioChunk, None], rate: int) -> AsyncGenerator[AudioChunk, None]:
    """Yield the chunks with audio at `rate` Hz."""
    resampler: Resampler | None = None
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.frame.sample_rate == rate:
                yield chunk
                continue
            resampler = resampler or Resampler(chunk.frame.sample_rate, rate)
            yield replace(chunk, frame=resampler.push(chunk.frame))
    if resampler is not None:
        yield AudioChunk(resampler.flush())
