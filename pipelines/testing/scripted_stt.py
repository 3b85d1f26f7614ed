"""ScriptedSTT: a recogniser with transcripts by a test's script."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import anyio

from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import (
    STT,
    STTCapabilities,
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTStream,
    STTTurnResumed,
)
from vivavoce.pipelines.testing.script import ScriptError, lost, wait, words_at


class ScriptedSTT(STT):
    """Recognises nothing; events come from its script or from the test.

    Each `flush()` (the end of speech, if the pipeline has a VAD) takes the next text of the script and yields it as a
    final `final_delay` seconds later. When the script has run out, a flush yields nothing. A test may also call
    `interim()`, `final()`, `eager_end_of_turn()`, `turn_resumed()`, `end_of_turn()` and `fail()`, which act on the
    newest open stream at once.

    Words, speaker, languages and confidence come with an `STTFinal` in the script, or with `stream.emit()`. Words are
    made by `words_at()`. With the capability `emits_words`, the words of a text share the audio since its speech began
    evenly.

    With the capability `needs_flush` a stream ignores audio between a flush and the next `speech_started()`, as such
    recognisers do: this audio is not in `utterances`, and a flush then yields an empty final.

    Args:
        finals: The script.
        final_delay: Seconds from a flush to its final.
        open_delay, close_delay: Seconds that opening and closing a stream take; `HANG` for ever.
    """

    provider = "scripted"

    def __init__(
        self,
        finals: Sequence[str | STTFinal] = (),
        *,
        final_delay: float = 0.0,
        open_delay: float = 0.0,
        close_delay: float = 0.0,
        capabilities: STTCapabilities | None = None,
    ) -> None:
        self._finals = [STTFinal(text=final) if isinstance(final, str) else final for final in finals]
        self._final_delay = final_delay
        self._open_delay = open_delay
        self._close_delay = close_delay
        self._capabilities = capabilities or STTCapabilities()
        self._open_errors: list[ProviderError] = []
        self.streams: list[ScriptedSTTStream] = []
        """All streams ever opened, oldest first."""
        self.open_attempts = 0

    @property
    def capabilities(self) -> STTCapabilities:
        """The given capabilities."""
        return self._capabilities

    @property
    def stream(self) -> ScriptedSTTStream:
        """The newest stream.

        Raises:
            ScriptError: None is open.
        """
        if not self.streams or self.streams[-1].is_closed:
            raise ScriptError(f"needed an open stream, got none ({len(self.streams)} opened so far); start the session")
        return self.streams[-1]

    async def open(self) -> ScriptedSTTStream:
        """Return a stream, or raise the error planned by `fail_open()`."""
        return await self._open(())

    async def _open(self, terms: Sequence[str]) -> ScriptedSTTStream:
        self.open_attempts += 1
        await wait(self._open_delay)
        if self._open_errors:
            raise self._open_errors.pop(0)
        stream = ScriptedSTTStream(
            self._next_final, self._final_delay, self._close_delay, self._capabilities, key_terms=terms
        )
        self.streams.append(stream)
        return stream

    async def open_with_key_terms(self, terms: Sequence[str]) -> ScriptedSTTStream:
        """Return a stream that records the terms; only with the capability."""
        if not self._capabilities.takes_key_terms:
            await super().open_with_key_terms(terms)
        return await self._open(terms)

    def interim(self, text: str) -> None:
        """Have the newest stream yield an interim."""
        self.stream.emit(STTInterim(text=text))

    def final(self, text: str, *, audio_seconds: float = 0.0) -> None:
        """Have the newest stream yield a final."""
        self.stream.emit(STTFinal(text=text, audio_seconds=audio_seconds))

    def eager_end_of_turn(self, text: str = "") -> None:
        """Have the newest stream judge that the turn is perhaps over, with these words."""
        self.stream.emit(STTEagerEndOfTurn(text))

    def turn_resumed(self) -> None:
        """Have the newest stream take an eager end back."""
        self.stream.emit(STTTurnResumed())

    def end_of_turn(self) -> None:
        """Have the newest stream judge that the turn is over."""
        self.stream.emit(STTEndOfTurn())

    def fail(self, error: ProviderError | None = None) -> None:
        """Have the newest stream raise, by default a retryable connection error."""
        self.stream.emit(error or lost(self.provider))

    def fail_open(self, *errors: ProviderError) -> None:
        """Have the next calls of `open()` raise, one each."""
        self._open_errors.extend(errors or (lost(self.provider),))

    def assert_done(self) -> None:
        """Check that the script was used up.

        Raises:
            ScriptError: Finals are left.
        """
        if self._finals:
            raise ScriptError(f"{len(self._finals)} scripted finals were never asked for: {self._finals!r}")

    def _next_final(self) -> STTFinal | None:
        return self._finals.pop(0) if self._finals else None


class ScriptedSTTStream(STTStream):
    """One stream, with a record of its calls."""

    def __init__(
        self,
        next_final: Callable[[], STTFinal | None],
        final_delay: float,
        close_delay: float,
        capabilities: STTCapabilities | None = None,
        *,
        key_terms: Sequence[str] = (),
    ) -> None:
        can = capabilities or STTCapabilities()
        needs_flush = can.needs_flush
        self._next_final = next_final
        self._final_delay = final_delay
        self._close_delay = close_delay
        self._send, self._receive = anyio.create_memory_object_stream[tuple[float, STTEvent | Exception]](math.inf)
        self.is_closed = False
        self._needs_flush = needs_flush
        self._is_hearing = not needs_flush
        self._emits_words = can.emits_words
        self._began_at = 0.0
        """The position at which the utterance began."""
        self.key_terms = tuple(key_terms)
        """The terms that it was opened with."""
        self.pushed_seconds = 0.0
        self.utterances: list[float] = [] if needs_flush else [0.0]
        """Seconds heard of each utterance, the open one last; with `needs_flush` without the pre-roll."""
        self.flushes: list[float] = []
        """Loop times of the calls of `flush()`."""
        self.speech_ends: list[float] = []
        """Loop times of the calls of `speech_ended()`."""
        self.voice_edges: list[tuple[str, float]] = []
        """`paused` or `resumed` for each call of `voice_paused()` and `voice_resumed()`, with its loop time."""
        self.discards: list[float] = []
        """Loop times of the calls of `discard()`."""
        self.speech_starts: list[float] = []
        """Loop times at which speech began, by `speech_started(ago)`."""

    def emit(self, event: STTEvent | Exception, *, delay: float = 0.0) -> None:
        """Have `events()` yield this, or raise it."""
        self._send.send_nowait((LoopClock().now() + delay, event))

    def push(self, frame: AudioFrame) -> None:
        """Count its length."""
        self.pushed_seconds += frame.duration
        if self._is_hearing:
            self.utterances[-1] += frame.duration

    def speech_started(self, ago: float) -> None:
        """Record it."""
        self.speech_starts.append(LoopClock().now() - ago)
        self._began_at = max(self._began_at, self.pushed_seconds - ago)
        if not self._is_hearing:
            self._is_hearing = True
            self.utterances.append(0.0)

    def speech_ended(self) -> None:
        """Record it."""
        self.speech_ends.append(LoopClock().now())

    def voice_paused(self) -> None:
        """Record it."""
        self.voice_edges.append(("paused", LoopClock().now()))

    def voice_resumed(self) -> None:
        """Record it."""
        self.voice_edges.append(("resumed", LoopClock().now()))

    def flush(self) -> None:
        """Record it, and yield the script's next final."""
        self.flushes.append(LoopClock().now())
        if not self._is_hearing and not self.is_closed:
            self.emit(STTFinal(text=""), delay=self._final_delay)
            return
        began_at = self._began_at
        self._end_utterance()
        if not self.is_closed and (final := self._next_final()) is not None:
            self.emit(self._with_words(final, began_at), delay=self._final_delay)

    def discard(self) -> None:
        """Record it."""
        self.discards.append(LoopClock().now())
        self._end_utterance()

    def _with_words(self, final: STTFinal, began_at: float) -> STTFinal:
        if not self._emits_words or final.words:
            return final
        count = max(1, len(words_at(0.0, final.text)))
        return replace(final, words=words_at(began_at, final.text, seconds=(self.pushed_seconds - began_at) / count))

    def _end_utterance(self) -> None:
        self._began_at = self.pushed_seconds
        self._is_hearing = not self._needs_flush
        if self._is_hearing:
            self.utterances.append(0.0)

    async def events(self) -> AsyncIterator[STTEvent]:
        """Yield the events of the script and the test, until closed."""
        try:
            async for due, event in self._receive:
                await wait(due - LoopClock().now())
                if isinstance(event, Exception):
                    raise event
                yield event
        except anyio.ClosedResourceError:
            return

    async def aclose(self) -> None:
        """End the stream."""
        self.is_closed = True
        self._send.close()
        try:
            await wait(self._close_delay)
        finally:
            self._receive.close()
