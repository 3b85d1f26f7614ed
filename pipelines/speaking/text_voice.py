"""TextVoice: the voice of a pipeline without a TTS, whose answers are text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.tts.base import AudioChunk


class TextVoice:
    """Sends each piece of text as it comes, with one frame of silence.

    The playout orders, cuts and shows such a text as it does spoken words: a piece counts as heard once it was sent.

    Args:
        sample_rate: Hz of the silence.
    """

    def __init__(self, sample_rate: int) -> None:
        self._silence = AudioFrame.silence(FRAME_SECONDS, sample_rate)
        self._end = AudioFrame(b"", sample_rate)

    async def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Yield the text in pieces as they come."""
        if isinstance(text, str):
            yield AudioChunk(self._silence, text=text)
            return
        async for piece in text:
            yield AudioChunk(self._silence, text=piece)
            yield AudioChunk(self._end, is_end=True)  # the next piece may be long in coming
