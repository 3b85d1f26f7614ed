"""Changes the sample rate of speech."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import AudioChunk


async def at_rate(chunks: AsyncGenerator[AudioChunk, None], rate: int) -> AsyncGenerator[AudioChunk, None]:
    """Yield the chunks with audio at `rate` Hz; before an error of the voice too, all of its audio."""
    resampler: Resampler | None = None
    failure: ProviderError | None = None
    async with aclosing(chunks):
        try:
            async for chunk in chunks:
                if chunk.frame.sample_rate == rate:
                    yield chunk
                    continue
                resampler = resampler or Resampler(chunk.frame.sample_rate, rate)
                yield replace(chunk, frame=resampler.push(chunk.frame))
        except ProviderError as error:
            failure = error
    if resampler is not None:
        yield AudioChunk(resampler.flush())
    if failure is not None:
        raise failure
