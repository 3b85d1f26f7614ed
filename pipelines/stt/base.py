"""STT, STTStream and their events."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from vivavoce.pipelines.core.boundary import Expected
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.recognised import Recognised, STTWord

logger = logging.getLogger(__name__)

__all__ = [
    "STT",
    "STT_EVENTS",
    "STTCapabilities",
    "STTEagerEndOfTurn",
    "STTEndOfTurn",
    "STTEvent",
    "STTFinal",
    "STTInterim",
    "STTJudgement",
    "STTStream",
    "STTTurnResumed",
    "STTWord",
    "open_stream",
    "warn_of_key_terms",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class STTCapabilities:
    """The needs and events of a recogniser.

    Args:
        sample_rate: Hz that `push` wants; the pipeline resamples.
        emits_interims: Whether interim transcripts come before the final one.
        emits_end_of_turn: Whether it judges that a turn is over (`STTEndOfTurn`, perhaps `STTEagerEndOfTurn` and
            `STTTurnResumed` before). Then no turn detector is asked, pauses do not end turns, and the end of speech is
            reported by `speech_ended()` in place of `flush()`, unless it needs the flush.
        needs_flush: Whether it finalises only after `flush()` at the end of speech, so that it needs a VAD. It then
            reports one final for each flush, an empty one if it heard no words.
        emits_words: Whether each final has its words with their times; interims may have them too.
        diarizes: Whether it tells voices apart: the words of each final, or the final itself, name their speaker.
        takes_key_terms: Whether `open_with_key_terms()` makes it expect words that are rare in the language.
    """

    sample_rate: int = 16000
    emits_interims: bool = True
    emits_end_of_turn: bool = False
    needs_flush: bool = False
    emits_words: bool = False
    diarizes: bool = False
    takes_key_terms: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class STTInterim(Recognised):
    """The recognised words of the utterance so far; each interim replaces the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class STTFinal(Recognised):
    """A settled piece of the user's words. An empty text settles the utterance and discards its interims.

    Args:
        audio_seconds: Seconds of audio that the provider counts for it, for usage; 0 if unknown.
    """

    audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class STTEagerEndOfTurn:
    """The recogniser judges that the user's turn is perhaps over: an answer may be begun out of sight.

    `STTEndOfTurn` confirms it, and `STTTurnResumed` takes it back; so do other words.

    Args:
        text: The words of the turn that no final has settled, as in an interim; "" for the words shown so far.
    """

    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class STTTurnResumed:
    """The recogniser takes an eager end back: the user goes on."""


@dataclass(frozen=True, slots=True)
class STTEndOfTurn:
    """The recogniser judges that the user's turn is over. The final of its words comes before."""


STTEvent = STTInterim | STTFinal | STTEagerEndOfTurn | STTTurnResumed | STTEndOfTurn

STTJudgement = STTTurnResumed | STTEndOfTurn
"""The events without words."""

STT_EVENTS = Expected(
    STTInterim,
    STTFinal,
    STTEagerEndOfTurn,
    STTTurnResumed,
    STTEndOfTurn,
    text=str,
    words=tuple,
    speaker=str,
    language=str,
    languages=tuple,
    confidence=(int, float, type(None)),
    audio_seconds=(int, float),
)
"""The events that `STTStream.events()` may yield."""


class STTStream(ABC):
    """One session's recognition, from `open()` to `aclose()`."""

    @abstractmethod
    def push(self, frame: AudioFrame) -> None:
        """Take one mono frame at the capability's rate. Must not block and never raises for a lost connection.

        This method and the other synchronous ones should not raise at all. If one does, the stream counts as lost.
        """

    @abstractmethod
    def events(self) -> AsyncIterator[STTEvent]:
        """Yield events until the stream is closed.

        Raises:
            ProviderError: The stream is lost; the pipeline opens another one and pushes the missed audio. It does the
                same after any other exception, and after an event of another kind: neither ends the call.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End the stream and free its connection. Calling it twice is fine."""

    def speech_started(self, ago: float) -> None:
        """Take the VAD's report of speech that began `ago` seconds before the end of the newest frame pushed.

        Recognisers that ignore silence need it; others need not implement it. `ago` is 0 just after a `flush()` in
        mid-speech: the same speech goes on, as another utterance.
        """

    def speech_ended(self) -> None:
        """Take the VAD's report that speech has ended. It is called in place of `flush()` where the recogniser judges
        the ends of turns (capability `emits_end_of_turn`); others need not implement it."""

    def voice_paused(self) -> None:
        """Take the VAD's report that the voice pauses within speech, which may be over.

        Recognisers that take an utterance as a whole can begin with it; others need not implement it.
        """

    def voice_resumed(self) -> None:
        """Take the VAD's report that the voice goes on, after `voice_paused()`."""

    def flush(self) -> None:
        """Make the final transcript of the utterance at once: the utterance is over.

        Called when speech has ended, or when the turn was ended in mid-speech. In the second case `speech_started(0.0)`
        follows, and later audio belongs to the next utterance: none of its words may be lost, and no earlier word may
        come again. A recogniser that judges the ends of turns gets it only if something else has ended the turn: a
        request, a limit, or the end of the audio.
        """

    def discard(self) -> None:
        """Forget the current utterance: its transcript is not needed."""

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        """Make the calls of the unsettled audio again, to the next stream: this stream is lost.

        Audio of words that an interim has shown is left out: the pipeline makes a final of a lost stream's interim.
        Streams that keep audio, such as a fallback's, need it; others need not implement it.
        """


class STT(Component, ABC):
    """Speech to text."""

    @property
    def capabilities(self) -> STTCapabilities:
        """Read before opening."""
        return STTCapabilities()

    @abstractmethod
    async def open(self) -> STTStream:
        """Connect and return a stream that is ready for audio.

        Raises:
            ProviderError: It cannot be opened. After a retryable error, and after any other exception, it is tried
                again (`stt_reconnect`).
        """

    async def open_with_key_terms(self, terms: Sequence[str]) -> STTStream:
        """Open a stream that also expects these words, names and phrases, besides those of its own options.

        Called in place of `open()` for a session with key terms. Only with the capability `takes_key_terms`.

        Raises:
            CapabilityError: This recogniser cannot be told which words to expect.
            ProviderError: As `open()`.
        """
        remedy = "choose a recogniser that has it, or leave the key terms out"
        raise CapabilityError(self.provider, "takes_key_terms", remedy)


def warn_of_key_terms(stt: STT | None) -> None:
    """Log that a recogniser cannot be told which words to expect, although the session has key terms.

    Args:
        stt: None for a realtime model, which makes the transcripts itself.
    """
    logger.warning(
        "%s takes no key terms: it hears without SessionOptions.key_terms; choose a recogniser with the capability "
        "'takes_key_terms', or leave them out",
        "the pipeline, which has no stt," if stt is None else stt.provider,
    )


async def open_stream(stt: STT, key_terms: Sequence[str]) -> STTStream:
    """Open a stream, with the key terms of the session if the recogniser takes any.

    Raises:
        ProviderError: As `STT.open()`.
    """
    if key_terms and stt.capabilities.takes_key_terms:
        return await stt.open_with_key_terms(key_terms)
    return await stt.open()
