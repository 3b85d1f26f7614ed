"""TextVoice: the voice of a pipeline without a TTS, whose answers are text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.tts.base import AudioChunk, Word


class TextVoice:
    """Sends each piece of text as it comes, with one frame of silence.

    The playout orders, cuts and shows such a text as it does spoken words: a piece is one word for it, heard whole at
    the end of its frame.

    Args:
        sample_rate: Hz of the silence.
    """

    def __init__(self, sample_rate: int) -> None:
        self._silence = AudioFrame.silence(FRAME_SECONDS, sample_rate)

    async def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Yield the text in pieces as they come."""
        if isinstance(text, str):
            yield self._chunk(text, 0)
            return
        number = 0
        async for piece in text:
            yield self._chunk(piece, number)
            number += 1

    def _chunk(self, piece: str, number: int) -> AudioChunk:
        word = piece.strip()
        start, end = number * FRAME_SECONDS, (number + 1) * FRAME_SECONDS
        return AudioChunk(self._silence, text=piece, words=(Word(word, start, end),) if word else ())
