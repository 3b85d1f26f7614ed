"""VAD, VADStream and the events they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class VADOptions:
    """The limits of speech.

    Each option: docs/options.md.
    """

    threshold: float = 0.5
    """Speech probability, 0 … 1, from which a window is speech."""
    min_speech: float = 0.05
    """Seconds of speech before an onset is reported."""
    min_silence: float = 0.2
    """Seconds of silence before an offset is reported."""

    def __post_init__(self) -> None:
        check_number("threshold", self.threshold, above=0)
        if self.threshold >= 1:
            raise ConfigurationError(f"need 0 < threshold < 1, got {self.threshold!r}")
        for name in ("min_speech", "min_silence"):
            check_number(name, getattr(self, name), at_least=0, unit="s")


@dataclass(frozen=True, slots=True, kw_only=True)
class VADCapabilities:
    """The needs and abilities of a VAD.

    Args:
        sample_rate: Hz of the frames for `push`; the pipeline resamples.
        min_silence: Seconds by which offsets are reported late, for the latency budget.
        edge_delay: Seconds after which a pause of the voice within speech is reported (`VADVoicePaused`), long before
            `min_silence` has passed; None if pauses are not reported.
    """

    sample_rate: int = 16000
    min_silence: float = 0.2
    edge_delay: float | None = None

    def __post_init__(self) -> None:
        check_number("edge_delay", self.edge_delay, at_least=0, unit="s", or_none=True)

    @property
    def voice_lag(self) -> float:
        """Seconds after which silence is reported, as a pause of the voice or as the speech's end."""
        return self.min_silence if self.edge_delay is None else min(self.edge_delay, self.min_silence)


@dataclass(frozen=True, slots=True)
class VADSpeechStarted:
    """Speech began `ago` seconds before the end of the frame just pushed."""

    ago: float


@dataclass(frozen=True, slots=True)
class VADSpeechEnded:
    """Speech ended `ago` seconds before the end of the frame just pushed."""

    ago: float


@dataclass(frozen=True, slots=True)
class VADVoicePaused:
    """Within speech, the last voiced audio ended `ago` seconds before the end of the frame just pushed.

    Next comes `VADVoiceResumed`, or `VADSpeechEnded` once the silence has lasted `min_silence`.
    """

    ago: float


@dataclass(frozen=True, slots=True)
class VADVoiceResumed:
    """Within speech, voiced audio began again `ago` seconds before the end of the frame just pushed."""

    ago: float


VADEvent = VADSpeechStarted | VADSpeechEnded | VADVoicePaused | VADVoiceResumed


class VADStream(ABC):
    """One session's voice activity detection.

    Starts and ends alternate, beginning with a start. Between them, with the capability `edge_delay`, pauses of the
    voice and their ends alternate, beginning with a pause; speech ends at the last pause.

    No exception of a stream ends the call. If a method raises, or an event is of another kind, the speech that is open
    counts as ended and the VAD opens another stream. After three failures in a row, with less than five seconds between
    them, the pipeline goes on without the VAD. If the recogniser needs one (`needs_flush`), or a realtime session
    decides turns, the pipeline is lost instead.
    """

    @abstractmethod
    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        """Take one mono frame at the capability's rate and return the events that became known by it.

        Must not block: it runs on the event loop for every 20 ms frame.
        """

    def reset(self) -> None:
        """Forget the audio so far, as if there were no speech."""

    def close(self) -> None:
        """Free the stream."""


class VAD(Component, ABC):
    """Voice activity detection."""

    @property
    def capabilities(self) -> VADCapabilities:
        """Read before opening."""
        return VADCapabilities()

    @abstractmethod
    def open(self) -> VADStream:
        """Return a stream for one session.

        Raises:
            ProviderError: The model cannot be loaded.
        """
