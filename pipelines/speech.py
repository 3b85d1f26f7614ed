"""SpeechComponents and SpeechOptions: the components that listen and speak in either pipeline, and their options.

`ComponentSet` names components that take the place of a pipeline's own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, TypedDict

from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.core.tending import Tending
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.tts.base import TTS
from vivavoce.pipelines.tts.sentences import SentenceOptions
from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS, TextFilter, checked_filters
from vivavoce.pipelines.turn_detector.base import TurnDetector
from vivavoce.pipelines.vad.base import VAD

logger = logging.getLogger(__name__)

TURN_DETECTOR_LIMIT = 1.0
"""Seconds for a turn detector's verdict, after which the turn counts as complete."""

Parts: TypeAlias = Iterator[tuple[str, Component]]
"""Kind and component of each part of a pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOptions:
    """How a pipeline works with its own STT, TTS and turn detector. Each pipeline's options inherit these."""

    tts_retry: RetryOptions = field(default_factory=RetryOptions)
    """Tries of a synthesis, until its first audio. With one retry or more, text of which a voice sends no audio and no
    error is asked for once more."""
    text_filters: tuple[TextFilter, ...] = DEFAULT_TEXT_FILTERS
    """Filters that turn written text into spoken text for the TTS, in order (`pipelines.tts.text_filters`); `()` for
    none."""
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    """Where text is cut for a TTS that takes sentences."""
    stt_reconnect: RetryOptions = field(default_factory=lambda: RetryOptions(waits=(0.5, 0.5)))
    """Tries of opening a recognition stream."""

    def __post_init__(self) -> None:
        checked_filters(self.text_filters)


class ListeningCapabilities(TypedDict):
    """The fields of `PipelineCapabilities` that depend on VAD, STT and turn detector."""

    vad_silence: float
    voice_lag: float
    emits_interims: bool
    turn_detector_limit: float | None
    recogniser_decides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechComponents:
    """The components of a pipeline that listen and speak; each may be absent."""

    stt: STT | None = None
    tts: TTS | None = None
    vad: VAD | None = None
    denoise: Denoiser | None = None
    turn_detector: TurnDetector | None = None

    def check(self, pipeline: str) -> None:
        """Refuse a component of another port, and one that needs another component to listen.

        Args:
            pipeline: Name of the pipeline's class, for the error.
        Raises:
            ConfigurationError: A component is of another port.
            CapabilityError: A component needs another one; the error names it.
        """
        for kind, port in _PORTS.items():
            check_port(kind, getattr(self, kind), port)
        stt, detector = self.stt, self.turn_detector
        if stt is not None and stt.capabilities.needs_flush and self.vad is None:
            remedy = f"give {pipeline} a vad, such as silero.VAD()"
            raise CapabilityError(stt.provider, "ends of speech without a VAD", remedy)
        if detector is not None and stt is not None and self.recogniser_decides:
            logger.warning(
                "stt %s judges the ends of turns: the turn detector %s is not asked", stt.provider, detector.provider
            )
        if detector is not None and detector.capabilities.needs_transcript and stt is None:
            raise CapabilityError(detector.provider, "verdicts without a transcript", f"give {pipeline} an stt")

    @property
    def recogniser_decides(self) -> bool:
        """Whether the recogniser judges the ends of turns."""
        return self.stt is not None and self.stt.capabilities.emits_end_of_turn

    @property
    def lacks_detector(self) -> bool:
        """Whether a turn detector would be asked, and there is none."""
        listens = self.stt is not None and self.vad is not None
        return listens and self.turn_detector is None and not self.recogniser_decides

    @property
    def asked_detector(self) -> TurnDetector | None:
        """The turn detector that judges pauses; None if the recogniser does so."""
        return None if self.recogniser_decides else self.turn_detector

    def listening(self) -> ListeningCapabilities:
        """Return the capabilities of the components that listen."""
        vad = None if self.vad is None else self.vad.capabilities
        return ListeningCapabilities(
            vad_silence=0.0 if vad is None else vad.min_silence,
            voice_lag=0.0 if vad is None else vad.voice_lag,
            emits_interims=self.stt is not None and self.stt.capabilities.emits_interims,
            turn_detector_limit=None if self.asked_detector is None else TURN_DETECTOR_LIMIT,
            recogniser_decides=self.recogniser_decides,
        )

    def having(self, others: ComponentSet) -> SpeechComponents:
        """Return these components, with `others` in the places that those have."""
        return SpeechComponents(
            stt=others.stt or self.stt,
            tts=others.tts or self.tts,
            vad=others.vad or self.vad,
            denoise=others.denoise or self.denoise,
            turn_detector=others.turn_detector or self.turn_detector,
        )

    def tending(self, llm: Component | None = None) -> Tending:
        """Return their background work, and that of `llm`."""
        return Tending((self.stt, llm, self.tts))

    def present(self) -> Iterator[tuple[str, Component]]:
        """Yield kind and component of the present ones."""
        for kind in _PORTS:
            if (component := getattr(self, kind)) is not None:
                yield kind, component


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSet:
    """Components that take the place of a pipeline's own; where one is None, the pipeline keeps its own.

    Raises:
        ConfigurationError: A component is of another port.
    """

    stt: STT | None = None
    llm: LLM | None = None
    tts: TTS | None = None
    vad: VAD | None = None
    denoise: Denoiser | None = None
    turn_detector: TurnDetector | None = None

    def __post_init__(self) -> None:
        for kind, component in given(self):
            check_port(kind, component, LLM if kind == "llm" else _PORTS[kind])


def given(components: ComponentSet) -> Iterator[tuple[str, Component]]:
    """Yield kind and component of those that are not None."""
    for each in fields(ComponentSet):
        if (component := getattr(components, each.name)) is not None:
            yield each.name, component


def over(components: ComponentSet, others: ComponentSet) -> ComponentSet:
    """Return the components, and those of `others` in the places that they leave free."""
    return ComponentSet(**{**dict(given(others)), **dict(given(components))})  # type: ignore[arg-type]


def but(components: ComponentSet, others: ComponentSet) -> ComponentSet:
    """Return the components whose places `others` leaves free."""
    taken = dict(given(others))
    left: dict[str, Any] = {kind: component for kind, component in given(components) if kind not in taken}
    return ComponentSet(**left)


def only(components: ComponentSet, others: ComponentSet) -> ComponentSet:
    """Return the components of kinds that `others` have too."""
    return but(components, but(components, others))


_PORTS: dict[str, type[Component]] = {
    "stt": STT,
    "tts": TTS,
    "vad": VAD,
    "denoise": Denoiser,
    "turn_detector": TurnDetector,
}


def check_port(kind: str, component: Component | None, port: type[Component]) -> None:
    """Refuse a component that is present and not of its port.

    Raises:
        ConfigurationError: The error names the port.
    """
    if component is not None and not isinstance(component, port):
        remedy = "; call the class" if isinstance(component, type) else ""
        if isinstance(component, str):
            remedy = "; a name is not looked up: make the component, such as deepgram.STT() or openai.LLM(model=…)"
        raise ConfigurationError(f"{kind} must be an instance of {port.__name__}, got {shown(component)}{remedy}")
