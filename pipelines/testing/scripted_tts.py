"""ScriptedTTS: a voice of exact lengths and times, with faults on demand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import anyio

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.core.words import pieces
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.testing.positions import position_chunks
from vivavoce.pipelines.testing.script import HANG, tone_chunks, wait
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities, Word


@dataclass(frozen=True, slots=True)
class TTSFault:
    """A fault of one synthesis.

    Args:
        when: Before the first chunk, in the middle, or after the last chunk.
        error: The exception; None: it hangs.
    """

    when: Literal["before", "middle", "after"]
    error: ProviderError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """How certain words are spoken; a field that is None has the value of all others.

    Args:
        first_byte: Seconds to the first chunk.
        seconds: Length of the synthesis; its words share it evenly.
    """

    first_byte: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTTSOptions:
    """How long scripted speech takes and how it arrives."""

    seconds_per_word: float = 0.2
    """Length of a word's audio."""
    duration: float | None = None
    """Length of each synthesis of any text; the words share it evenly."""
    chunk_interval: float = 0.0
    """Seconds between two chunks; 0: all at once after the first."""
    close_delay: float = 0.0
    """Seconds that closing a synthesis takes; `HANG` for ever."""
    by_text: Mapping[str, Spoken] = field(default_factory=dict)
    """Words, and how a text that contains them is spoken, in upper or lower case; the first match counts."""
    tells_position: bool = False
    """Whether each sample holds its position in its synthesis, for `positions()`, instead of a constant tone."""


class ScriptedTTS(TTS):
    """Speaks a constant tone, or samples that hold their position, in chunks of 20 ms.

    Args:
        first_byte: Seconds from the request (or the first piece of streamed text) to the first chunk.
        emits_words: Whether chunks carry word times.
        streams_text: Whether it takes text as it comes; then each word sounds as soon as it is complete.
        faults: Index of a synthesis, counted from 0, to its fault.
    """

    provider = "scripted"

    def __init__(
        self,
        *,
        first_byte: float = 0.2,
        emits_words: bool = False,
        streams_text: bool = False,
        sample_rate: int = 24000,
        faults: Mapping[int, TTSFault] | None = None,
        options: ScriptedTTSOptions | None = None,
    ) -> None:
        self._first_byte = first_byte
        self._capabilities = TTSCapabilities(
            sample_rate=sample_rate, emits_words=emits_words, streams_text=streams_text
        )
        self._faults = dict(faults or {})
        self._options = options or ScriptedTTSOptions()
        if streams_text and any(spoken.seconds is not None for spoken in self._options.by_text.values()):
            raise ConfigurationError(
                "a length by text needs a voice that takes whole texts, got streams_text=True; use seconds_per_word"
            )
        self.texts: list[str] = []
        """The texts spoken, oldest first; a streamed one grows as it comes."""
        self.requested_at: list[float] = []
        """Loop times of the requests."""
        self.warmed = 0
        """How many times it was asked to connect ahead."""
        self.cancelled: list[int] = []
        """Indexes of the syntheses that were closed before they had ended."""

    @property
    def capabilities(self) -> TTSCapabilities:
        """The given capabilities."""
        return self._capabilities

    @property
    def pace(self) -> float | None:
        """Seconds for each word; None where lengths are set otherwise."""
        options = self._options
        is_steady = options.duration is None and all(spoken.seconds is None for spoken in options.by_text.values())
        return options.seconds_per_word if is_steady else None

    def seconds(self, text: str) -> float:
        """Return the seconds of audio for `text`."""
        options, spoken = self._options, self._spoken(text)
        if spoken.seconds is not None:
            return spoken.seconds
        return options.duration if options.duration is not None else options.seconds_per_word * len(pieces(text))

    def _spoken(self, text: str) -> Spoken:
        folded = text.casefold()
        found = (spoken for words, spoken in self._options.by_text.items() if words.casefold() in folded)
        return next(found, Spoken())

    def _first_byte_of(self, text: str) -> float:
        first_byte = self._spoken(text).first_byte
        return self._first_byte if first_byte is None else first_byte

    def warm(self) -> None:
        """Note that it was asked."""
        self.warmed += 1

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak."""
        index = self._note(text)
        try:
            await wait(self._first_byte_of(text))
            await self._fault(index, "before")
            chunks = self._chunks(text)
            for number, chunk in enumerate(chunks):
                if number == (len(chunks) + 1) // 2:
                    await self._fault(index, "middle")
                if number:
                    await wait(self._options.chunk_interval)
                yield chunk
            if chunks:
                yield AudioChunk(AudioFrame(b"", self._capabilities.sample_rate), is_end=True)
            await self._fault(index, "after")
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            self.cancelled.append(index)
            raise
        finally:
            await self._linger()

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text as it comes: each word once white space or the end follows it."""
        if not self._capabilities.streams_text:
            super().stream(text)
        index = self._note("")
        spoken, pending = 0.0, ""
        try:
            async for piece in text:
                if not self.texts[index]:
                    await wait(self._first_byte_of(piece))
                    await self._fault(index, "before")
                self.texts[index] += piece
                *words, pending = (pending + piece).split(" ")
                for word in filter(None, words):
                    for chunk in self._word(word, spoken):
                        spoken += chunk.frame.duration
                        yield chunk
                        await wait(self._options.chunk_interval)
                if spoken:
                    await self._fault(index, "middle")
            if pending.strip():
                for chunk in self._word(pending.strip(), spoken):
                    yield chunk
                    await wait(self._options.chunk_interval)
            await self._fault(index, "after")
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            self.cancelled.append(index)
            raise
        finally:
            await self._linger()

    def _note(self, text: str) -> int:
        self.texts.append(text)
        self.requested_at.append(anyio.current_time())
        return len(self.texts) - 1

    async def _fault(self, index: int, when: str) -> None:
        fault = self._faults.get(index)
        if fault is None or fault.when != when:
            return
        if fault.error is not None:
            raise fault.error
        await wait(HANG)

    async def _linger(self) -> None:
        if self._options.close_delay:
            with anyio.CancelScope(shield=True):
                await wait(self._options.close_delay)

    def _chunks(self, text: str) -> list[AudioChunk]:
        """Return the audio of a whole text, each word with the chunk in which it begins."""
        seconds, rate = self.seconds(text), self._capabilities.sample_rate
        frames = position_chunks(seconds, rate) if self._options.tells_position else tone_chunks(seconds, rate)
        spoken = [text[start:end] for start, end in pieces(text)]
        words = [
            Word(word, seconds * number / len(spoken), seconds * (number + 1) / len(spoken))
            for number, word in enumerate(spoken)
        ]
        chunks, heard = [], 0
        for number, frame in enumerate(frames, start=1):
            heard += frame.samples
            begun: tuple[Word, ...] = ()
            if self._capabilities.emits_words:
                begun = tuple(word for word in words if word.start < heard / rate or number == len(frames))
                words = words[len(begun) :]
            chunks.append(AudioChunk(frame, begun))
        return chunks

    def _word(self, word: str, start: float) -> list[AudioChunk]:
        seconds, rate = self._options.seconds_per_word, self._capabilities.sample_rate
        chunk = max(FRAME_SECONDS, seconds)
        if self._options.tells_position:
            frames = position_chunks(seconds, rate, chunk, start=start)
        else:
            frames = tone_chunks(seconds, rate, chunk)
        told = (Word(word, start, start + seconds),) if self._capabilities.emits_words else ()
        return [AudioChunk(frame, told if number == 0 else ()) for number, frame in enumerate(frames)]
