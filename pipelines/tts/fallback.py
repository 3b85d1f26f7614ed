"""FallbackTTS: goes on with the next voice if one fails, also in the middle of a sentence."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import anyio

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import CapabilityError, ProviderError, ProviderTimeoutError, UnvoicedError
from vivavoce.pipelines.core.members import FallbackOptions, Member, Members, check_options, final_error
from vivavoce.pipelines.tts.at_rate import at_rate
from vivavoce.pipelines.tts.base import AUDIO_CHUNKS, TTS, AudioChunk, TTSCapabilities, Word
from vivavoce.pipelines.tts.rest_of_text import RestOfText
from vivavoce.pipelines.tts.spoken_part import SpokenPart, whole_sentences

CHECK = "Hello."
"""The text of a check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackTTSOptions(FallbackOptions):
    """When a `FallbackTTS` goes on with the next voice.

    Each option: docs/options.md.
    """

    first_byte: float = 1.5
    """Seconds from a text to a voice's first audio, after which the next one speaks; the last one may take longer. The
    session's own limit, `tts_first_byte`, is for all of them together."""
    stall: float = 1.5
    """Seconds between two pieces of audio, in which the voice does not wait for text."""

    def __post_init__(self) -> None:
        FallbackOptions.__post_init__(self)
        check_number("first_byte", self.first_byte, above=0, unit="s")
        check_number("stall", self.stall, above=0, unit="s")


class FallbackTTS(TTS):
    """Speaks with the first voice that works.

    If a voice raises or is silent for too long, the next one goes on: with the whole text if no audio has come; behind
    the last word whose audio is complete, if the voice gives word times; else with the sentence in which the voice
    broke off. So each word is heard, and no sentence that was heard in full comes again. None goes on for a voice that
    fails behind the end of its audio, as the voice has marked it (`AudioChunk.is_end`). Text of which the last voice
    yields no audio, and no error, gets none. Where a voice has no word times, text is spoken sentence by sentence, and
    not streamed. In the background a short synthesis checks whether a voice that failed works again. The code that made
    the voices closes them.

    A voice is closed before the next one speaks, within its limit. One whose clean-up hangs and shields itself from
    cancellation cannot be left, as nowhere in a session: the speech waits for it until the session closes. A plugin
    limits what it shields.

    All audio has the rate of the first voice. The capability `emits_words` is the first voice's too: another voice
    gives word times if it has them.

    Args:
        voices: In order of preference; at least two.
    Raises:
        ConfigurationError: There are not two voices.
    """

    provider: ClassVar[str] = "fallback"

    def __init__(
        self, voices: Sequence[TTS], options: FallbackTTSOptions | None = None, *, clock: Clock | None = None
    ) -> None:
        check_options(options, FallbackTTSOptions, TTS, "FallbackTTS")
        self._options = options or FallbackTTSOptions()
        self._members: Members[TTS] = Members("tts", voices, TTS, self._options, check=self._check, clock=clock)
        first, *others = (voice.capabilities for voice in self._members.components)
        self._capabilities = TTSCapabilities(
            sample_rate=first.sample_rate,
            emits_words=first.emits_words,
            streams_text=all(each.streams_text and each.emits_words for each in (first, *others)),
        )

    @property
    def model(self) -> str:
        """Provider and name of the voice that spoke last."""
        return self._members.in_use

    @property
    def members(self) -> tuple[TTS, ...]:
        """All of them, in order of preference."""
        return self._members.components

    @property
    def capabilities(self) -> TTSCapabilities:
        """Rate and word times of the first voice; text is streamed if all of them stream it and give word times."""
        return self._capabilities

    def warm(self) -> None:
        """Warm the first voice."""
        self._members.components[0].warm()

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak one sentence or more, with one voice after the other until it is spoken.

        Raises:
            ProviderError: All voices failed.
        """
        before = 0.0
        for part in self._parts(text):
            async with aclosing(self._synthesize(RestOfText(part), before)) as chunks:
                async for chunk in chunks:
                    before += chunk.frame.duration
                    yield chunk

    def _synthesize(self, rest: RestOfText, before: float) -> AsyncGenerator[AudioChunk, None]:
        return self._speak(rest, lambda voice: voice.synthesize(rest.text), before)

    def _parts(self, text: str) -> list[str]:
        """Return the text, or its sentences where a voice does not report in which of them it broke off."""
        if all(voice.capabilities.emits_words for voice in self._members.components):
            return [text]
        return whole_sentences(text) or [text]

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text as it comes. Only if all voices stream text and give word times.

        Raises:
            CapabilityError: One of them does not.
            ProviderError: All voices failed.
        """
        for voice in self._members.components:
            for name in ("streams_text", "emits_words"):
                if not getattr(voice.capabilities, name):
                    raise CapabilityError(voice.provider, name, "use synthesize() with whole sentences")
        rest = RestOfText(text)
        async with aclosing(self._speak(rest, lambda voice: voice.stream(rest.pieces()))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _speak(
        self, rest: RestOfText, ask: Callable[[TTS], AsyncIterator[AudioChunk]], before: float = 0.0
    ) -> AsyncGenerator[AudioChunk, None]:
        """Speak with one voice after the other.

        Args:
            ask: Has a voice speak the rest of the text.
            before: Seconds of audio before it.
        """
        errors: list[ProviderError] = []
        for member, successor in self._members.line():
            part = SpokenPart()
            try:
                stream = self._speak_with(member, rest, ask, part, is_last=successor is None, is_first=not before)
                async with aclosing(stream) as chunks:
                    async for chunk in chunks:
                        yield replace(chunk, words=_later(chunk.words, before)) if before and chunk.words else chunk
                return
            except ProviderError as error:
                if rest.error is not None:  # the text failed, and not the voice
                    raise rest.error from error
                errors.append(error)
            rest.keep(part.rest(rest.text))
            before += part.seconds
            self._members.failed(member, errors[-1], None if rest.is_over else successor)
            if rest.is_over:  # all words were spoken before it failed
                return
        if not isinstance(errors[-1], UnvoicedError):
            raise final_error(errors)

    async def _speak_with(
        self,
        member: Member[TTS],
        rest: RestOfText,
        ask: Callable[[TTS], AsyncIterator[AudioChunk]],
        part: SpokenPart,
        *,
        is_last: bool,
        is_first: bool,
    ) -> AsyncGenerator[AudioChunk, None]:
        voice, text, is_silent = member.component, rest.text, True
        stream = guarded(partial(ask, voice), AUDIO_CHUNKS, voice.provider)
        if not is_last:
            stream = self._in_time(stream, rest, voice)
        async with aclosing(at_rate(stream, self._capabilities.sample_rate)) as chunks:
            async for chunk in chunks:
                part.take(chunk)
                if chunk.is_end:
                    continue
                if is_silent and chunk.frame.data:
                    is_silent = False
                    self._members.works(member)
                    if not is_first and rest.is_known:  # so that the heard text knows where these words begin
                        chunk = replace(chunk, text=text)
                yield chunk
        if is_silent and not rest.is_over:
            raise UnvoicedError(rest.text, provider=voice.provider)

    async def _in_time(
        self, stream: AsyncGenerator[AudioChunk, None], rest: RestOfText, voice: TTS
    ) -> AsyncGenerator[AudioChunk, None]:
        """Yield the chunks; a voice that does not wait for text and sends no audio in time has failed."""
        limit, needed = self._options.first_byte, "first audio"
        async with aclosing(stream):
            while True:
                chunk: AudioChunk | None = None
                with anyio.CancelScope() as scope:
                    rest.limit(scope, limit)
                    chunk = await anext(stream, None)
                if scope.cancelled_caught:
                    raise ProviderTimeoutError(f"no {needed} within {limit:g} s", provider=voice.provider)
                if chunk is None:
                    return
                if chunk.frame.data:
                    limit, needed = self._options.stall, "further audio"
                yield chunk

    async def _check(self, voice: TTS) -> None:
        stream = guarded(partial(voice.synthesize, CHECK), AUDIO_CHUNKS, voice.provider)
        async with aclosing(stream):
            async for chunk in stream:
                if chunk.frame.data:
                    return
        raise ProviderError("needed audio of a check, got none", provider=voice.provider)


def _later(words: tuple[Word, ...], seconds: float) -> tuple[Word, ...]:
    return tuple(Word(word.text, word.start + seconds, word.end + seconds) for word in words)
