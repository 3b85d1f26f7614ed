"""Voice: any text to one stream of audio, by whole sentences or as it comes, whichever the TTS takes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial

from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.retry import RetryOptions, retry_stream
from vivavoce.pipelines.tts.base import TTS, AudioChunk, Word
from vivavoce.pipelines.tts.sentences import sentences

NO_RETRY = RetryOptions(waits=())
"""For what follows speech that was heard already."""


class Voice:
    """Speaks with a TTS.

    Args:
        retries: Tries for a retryable error that comes before anything was spoken.
        clock: For when a text was sent to the TTS.
    """

    def __init__(self, tts: TTS, retries: RetryOptions, clock: Clock) -> None:
        self._tts = tts
        self._retries = retries
        self._clock = clock
        self._streams_text = tts.capabilities.streams_text

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Yield the speech; word times count from the start of all of it.

        The first chunk of each sentence (of all the text, for a TTS that streams text) carries `requested_at`, and that
        of a sentence its text.

        Raises:
            ProviderError: While iterating.
        """
        return self._speak_stream(text) if self._streams_text else self._speak_sentences(text)

    async def _speak_sentences(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        samples, rate = 0, self._tts.capabilities.sample_rate
        retries = self._retries
        async with aclosing(sentences(text)) as parts:
            async for sentence in parts:
                start, is_first, requested_at = samples / rate, True, self._clock.now()
                stream = retry_stream(partial(self._tts.synthesize, sentence), retries)
                retries = NO_RETRY
                async with aclosing(stream) as chunks:
                    async for chunk in chunks:
                        samples += chunk.frame.samples
                        if is_first:
                            is_first = False
                            yield AudioChunk(chunk.frame, _later(chunk.words, start), sentence, requested_at)
                        elif chunk.words and start:
                            yield AudioChunk(chunk.frame, _later(chunk.words, start), chunk.text)
                        else:
                            yield chunk

    async def _speak_stream(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        source = _Source(_once(text) if isinstance(text, str) else text, self._clock)
        is_first = True
        async with aclosing(retry_stream(lambda: self._tts.stream(source.again()), self._retries)) as chunks:
            async for chunk in chunks:
                if is_first:
                    is_first = False
                    source.forget()
                    yield AudioChunk(chunk.frame, chunk.words, chunk.text, source.began_at)
                else:
                    yield chunk


class _Source:
    """Text that can be read again from its start until `forget()`, for a second try."""

    def __init__(self, text: AsyncIterator[str], clock: Clock) -> None:
        self._text = text
        self._clock = clock
        self._pieces: list[str] = []
        self._is_kept = True
        self.began_at: float | None = None

    def forget(self) -> None:
        self._is_kept = False
        self._pieces = []

    async def again(self) -> AsyncGenerator[str, None]:
        for piece in list(self._pieces):
            yield piece
        async for piece in self._text:
            if self._is_kept:
                self._pieces.append(piece)
                if self.began_at is None:
                    self.began_at = self._clock.now()
            yield piece


async def _once(text: str) -> AsyncGenerator[str, None]:
    yield text


def _later(words: tuple[Word, ...], seconds: float) -> tuple[Word, ...]:
    return tuple(Word(word.text, word.start + seconds, word.end + seconds) for word in words) if seconds else words
