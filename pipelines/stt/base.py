"""STT, STTStream and their events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from vivavoce.pipelines.core.boundary import Expected
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.media.frame import AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class STTCapabilities:
    """What a recogniser needs and emits.

    Args:
        sample_rate: Hz that `push` wants; the pipeline resamples.
        emits_interims: Whether interim transcripts come before the final one.
        emits_end_of_turn: Whether it judges by itself that a turn is over (`STTEndOfTurn`).
        needs_flush: Whether it finalises only when `flush()` tells it that speech has ended, so that it needs a VAD.
    """

    sample_rate: int = 16000
    emits_interims: bool = True
    emits_end_of_turn: bool = False
    needs_flush: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class STTInterim:
    """What the utterance sounds like so far; each one replaces the one before."""

    text: str = field(repr=False)
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class STTFinal:
    """A settled piece of the user's words. An empty text settles the utterance and discards its interims.

    Args:
        confidence: 0 … 1, or None where the provider has none.
        audio_seconds: Seconds of audio that the provider has taken for it, for usage; 0 when unknown.
    """

    text: str = field(repr=False)
    language: str = ""
    confidence: float | None = None
    audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class STTEndOfTurn:
    """The recogniser judges that the user's turn is over."""


STTEvent = STTInterim | STTFinal | STTEndOfTurn

STT_EVENTS = Expected(STTInterim, STTFinal, STTEndOfTurn, text=str, audio_seconds=(int, float))
"""What `STTStream.events()` may yield."""


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
            ProviderError: The stream is lost; the pipeline opens another one and pushes what was missed. It does the
                same after any other exception, and after an event of another kind: neither ends the call.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End the stream and free its connection. Calling it twice is fine."""

    def speech_started(self, ago: float) -> None:
        """Take note that, by the VAD, speech began `ago` seconds before the end of the newest frame pushed.

        For recognisers that would rather not listen to silence; the others need not care. `ago` is 0 just after a
        `flush()` in mid-speech: the same speech goes on, as another utterance.
        """

    def flush(self) -> None:
        """Say that the utterance is over, so that the final transcript of what was pushed may come at once.

        Speech has ended, or the turn was ended in mid-speech; then `speech_started(0.0)` follows, and what is pushed
        from there on belongs to the next utterance: no word of it may be lost, and none of the one before heard again.
        """

    def discard(self) -> None:
        """Forget the current utterance: nothing of it will be asked for."""


class STT(Component, ABC):
    """Speech to text."""

    @property
    def capabilities(self) -> STTCapabilities:
        """Read before opening."""
        return STTCapabilities()

    @abstractmethod
    async def open(self) -> STTStream:
        """Connect and return a stream that takes audio now.

        Raises:
            ProviderError: It cannot be had. A retryable one, and any other exception, is tried again
                (`stt_reconnect`).
        """
