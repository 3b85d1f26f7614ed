"""CascadingPipeline: speech to text, a language model and text to speech in a row."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.checks import check_instance, check_number, shown
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderError, first_error
from vivavoce.pipelines.core.reopening import Reopening
from vivavoce.pipelines.core.retry import RetryOptions, retry_stream
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.denoise.guarded import GuardedDenoiser
from vivavoce.pipelines.events import (
    PipelineFailed,
    RecogniserBack,
    RecogniserLost,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
    UserTurnEnded,
    UserTurnPredicted,
    UserVoicePaused,
    UserVoiceResumed,
)
from vivavoce.pipelines.llm.base import LLM, LLM_EVENTS, Done, GenerateRequest, LLMEvent, Usage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.pipeline import Pipeline, PipelineCapabilities, PipelineConnection, PipelineContext
from vivavoce.pipelines.stt.base import STT, STTEvent, STTFinal, STTInterim
from vivavoce.pipelines.stt.reconnect import Recognizer
from vivavoce.pipelines.tts.base import TTS, AudioChunk
from vivavoce.pipelines.tts.sentences import SentenceOptions
from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS, TextFilter, checked_filters
from vivavoce.pipelines.tts.voice import Voice, VoiceOptions
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetector, TurnDetectorStream
from vivavoce.pipelines.turn_detector.predictor import TurnPredictor
from vivavoce.pipelines.vad.base import VAD, VADSpeechEnded, VADSpeechStarted, VADVoicePaused
from vivavoce.pipelines.vad.guarded import GuardedVAD

DEFAULT_OUTPUT_RATE = 24000
"""Hz that is named where nothing makes audio."""
_REMARKS = (Usage, Done)


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadingOptions:
    """How a cascading pipeline speaks, and deals with what fails.

    What each option does: docs/options.md.
    """

    llm_retry: RetryOptions = field(default_factory=RetryOptions)
    """Tries of a model step, until its first word or tool call."""
    tts_retry: RetryOptions = field(default_factory=RetryOptions)
    """Tries of a synthesis, until its first audio."""
    text_filters: tuple[TextFilter, ...] = DEFAULT_TEXT_FILTERS
    """What the voice says for what is written, in order (`pipelines.tts.text_filters`); `()` for none."""
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    """Where text is cut for a voice that takes sentences."""
    stt_reconnect: RetryOptions = field(default_factory=lambda: RetryOptions(waits=(0.5, 0.5)))
    """Tries of opening a recognition stream."""
    turn_detector_limit: float = 1.0
    """Seconds for a turn detector's verdict, after which the turn counts as complete."""

    def __post_init__(self) -> None:
        checked_filters(self.text_filters)
        check_number("turn_detector_limit", self.turn_detector_limit, above=0, unit="s")


class Hearing(TypedDict):
    """Those of `PipelineCapabilities` that depend on what hears the caller."""

    vad_silence: float
    voice_lag: float
    emits_interims: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadingComponents:
    """What a cascading pipeline is made of; each may be absent."""

    stt: STT | None = None
    llm: LLM | None = None
    tts: TTS | None = None
    vad: VAD | None = None
    denoise: Denoiser | None = None
    turn_detector: TurnDetector | None = None

    @property
    def hearing(self) -> Hearing:
        """What the parts that hear the caller can do."""
        vad = None if self.vad is None else self.vad.capabilities
        return Hearing(
            vad_silence=0.0 if vad is None else vad.min_silence,
            voice_lag=0.0 if vad is None else vad.voice_lag,
            emits_interims=self.stt is not None and self.stt.capabilities.emits_interims,
        )


_PORTS: dict[str, type[Component]] = {
    "stt": STT,
    "llm": LLM,
    "tts": TTS,
    "vad": VAD,
    "denoise": Denoiser,
    "turn_detector": TurnDetector,
}


class CascadingPipeline(Pipeline):
    """Listens with an STT, answers with an LLM (or a conversation flow), speaks with a TTS.

    Components may be shared by pipelines, and whoever made them closes them; a pipeline serves one session at a time.

    Args:
        stt: Without it the agent does not hear.
        llm: Without it answers come from a ConversationFlow only.
        tts: Without it the agent does not speak.
        vad: Tells when the user speaks; without it transcripts do.
        denoise: Cleans the audio before VAD and STT.
        turn_detector: Judges pauses.
    Raises:
        ConfigurationError: Something is not what its name says, or nothing is given.
        CapabilityError: A component needs another one that is missing.
    """

    name = "cascading"

    def __init__(
        self,
        *,
        stt: STT | None = None,
        llm: LLM | None = None,
        tts: TTS | None = None,
        vad: VAD | None = None,
        denoise: Denoiser | None = None,
        turn_detector: TurnDetector | None = None,
        options: CascadingOptions | None = None,
    ) -> None:
        check_instance("options", options, CascadingOptions, or_none=True)
        self.components = CascadingComponents(
            stt=stt, llm=llm, tts=tts, vad=vad, denoise=denoise, turn_detector=turn_detector
        )
        self.options = options or CascadingOptions()
        self.text_filters = self.options.text_filters if tts is not None else ()
        if stt is None and tts is None:
            raise ConfigurationError("needed an stt or a tts, got neither; a pipeline listens or speaks")
        check_listening(self.components, self.name)
        self._connection: CascadingConnection | None = None

    @property
    def capabilities(self) -> PipelineCapabilities:
        """Computed from the components."""
        parts = self.components
        present = ((kind, getattr(parts, kind)) for kind in _PORTS)
        return PipelineCapabilities(
            can_listen=parts.stt is not None,
            can_say=parts.tts is not None,
            can_reply=parts.llm is not None and parts.tts is not None,
            sends_transcripts=parts.stt is not None,
            supports_images=parts.llm is not None and parts.llm.capabilities.supports_images,
            can_preempt=parts.llm is not None and parts.tts is not None,
            takes_flow=parts.tts is not None,
            output_rate=parts.tts.capabilities.sample_rate if parts.tts else DEFAULT_OUTPUT_RATE,
            **parts.hearing,
            turn_detector_limit=self.options.turn_detector_limit if parts.turn_detector else None,
            components=tuple((kind, part.provider, part.model) for kind, part in present if part is not None),
        )

    def open(self, context: PipelineContext) -> CascadingConnection:
        """Return the connection of one session; after its `aclose()` the pipeline may be opened again.

        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """
        if self._connection is not None and not self._connection.is_closed:
            raise ConfigurationError(
                "needed a pipeline that no session holds, got one that is attached already; make a CascadingPipeline "
                "for each session (its components may be shared)"
            )
        self._connection = CascadingConnection(self.components, self.options, context)
        return self._connection


class CascadingConnection(PipelineConnection):
    """One session's streams: a synchronous frame path, and one task that reads the recogniser.

    Args:
        needs_vad: Whether nobody knows that the caller speaks once the VAD is given up.
    """

    def __init__(
        self,
        parts: CascadingComponents,
        options: CascadingOptions,
        context: PipelineContext,
        *,
        needs_vad: bool = False,
    ) -> None:
        self._parts = parts
        self._needs_vad = needs_vad or (parts.stt is not None and parts.stt.capabilities.needs_flush)
        self._options = options
        self._clock = context.clock
        self._emit = context.emit
        self._rate = context.input_rate
        self.is_closed = False
        self._is_speaking = False
        self._denoise: GuardedDenoiser | None = None
        self._vad: GuardedVAD | None = None
        self._detector: Reopening[TurnDetectorStream] | None = None
        self._predictor: TurnPredictor | None = None
        self._path: Callable[[AudioFrame], None] = _ignore
        self._voice: Voice | None = None
        if parts.tts is not None:
            speaking = VoiceOptions(
                retry=options.tts_retry, text_filters=options.text_filters, sentences=options.sentences
            )
            self._voice = Voice(parts.tts, speaking, context.clock, self._on_filter_error)
        self._recognizer: Recognizer | None = None
        if parts.stt is not None:
            self._recognizer = Recognizer(
                parts.stt,
                clock=context.clock,
                on_event=self._on_stt_event,
                on_failure=self._on_stt_failure,
                on_connected=lambda is_back: self._emit(RecogniserBack() if is_back else RecogniserLost()),
                retries=options.stt_reconnect,
                open_limit=context.open_limit,
            )

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open the streams and recognise until cancelled. One task, and a second one for a turn detector."""
        self._open_streams()
        if self._predictor is None:
            await self._listen(task_status)
            return
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._predictor.run)
                await self._listen(task_status)
        except ExceptionGroup as group:
            raise first_error(group) from group

    async def _listen(self, task_status: TaskStatus[None]) -> None:
        if self._recognizer is not None:
            await self._recognizer.run(task_status=task_status)
        else:
            task_status.started()
            await anyio.sleep_forever()

    def push_audio(self, frame: AudioFrame) -> None:
        """Take the caller's next frame."""
        self._path(frame)

    def audio_stopped(self) -> None:
        """Have the recogniser settle what it has heard; what comes later begins in silence."""
        if self._vad is not None:
            self._vad.reset()
        if self._recognizer is not None and (self._is_speaking or not self.has_vad):
            self._recognizer.flush()
        self._is_speaking = False

    @property
    def has_vad(self) -> bool:
        """Whether a VAD says when the caller speaks: there is one, and it was not given up."""
        return self._vad is not None and self._vad.stream is not None

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Run one model step, tried again until it has said or called something.

        Raises:
            CapabilityError: There is no LLM.
        """
        llm = self._parts.llm
        if llm is None:
            raise CapabilityError("cascading", "can_reply", "give CascadingPipeline an llm, or the session a flow")
        step = partial(guarded, partial(llm.generate, request), LLM_EVENTS, llm.provider)
        return retry_stream(step, self._options.llm_retry, _is_answer)

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text, whole or as it comes; word times count from the start of all of it.

        Raises:
            CapabilityError: There is no TTS.
        """
        if self._voice is None:
            raise CapabilityError("cascading", "can_say", "give CascadingPipeline a tts")
        return self._voice.speak(text)

    def commit_audio(self) -> None:
        """Ask the recogniser for what is still open; speech that goes on is an utterance of its own from here on."""
        if self._recognizer is not None and (self._is_speaking or not self.has_vad):
            self._recognizer.flush()
            self._begin_rest()

    def clear_audio(self) -> None:
        """Have the recogniser forget the open utterance; of speech that goes on, the rest is heard."""
        if self._recognizer is not None:
            self._recognizer.discard()
            self._begin_rest()

    def _begin_rest(self) -> None:
        if self._is_speaking and self._recognizer is not None:
            self._recognizer.speech_started(0.0)

    def predict_end_of_turn(self, text: str, agent_text: str) -> None:
        """Ask the turn detector in the background; a newer question or new speech makes this one stale."""
        if self._predictor is not None:
            self._predictor.ask(TurnContext(text=text, agent_text=agent_text))

    async def aclose(self) -> None:
        """Free VAD, denoiser and detector; the recogniser's stream ended with `run()`."""
        self.is_closed = True
        self._path = _ignore
        for stream in (self._denoise, self._vad, self._detector):
            if stream is not None:
                stream.close()
        self._denoise = self._vad = self._detector = None

    def _open_streams(self) -> None:
        parts = self._parts
        if parts.denoise is not None:
            self._denoise = GuardedDenoiser(parts.denoise, self._on_denoise_failure)
        if parts.vad is not None:
            self._vad = GuardedVAD(parts.vad, clock=self._clock, on_failure=self._on_vad_failure)
            self._vad.open()
        detector = parts.turn_detector
        if detector is not None:
            self._detector = Reopening(
                detector.open,
                detector.provider,
                clock=self._clock,
                on_failure=lambda error, _: self._on_detector_failure(error),
            )
            self._detector.open()
            self._predictor = TurnPredictor(
                self._detector,
                self._on_verdict,
                on_failure=self._on_detector_failure,
                limit=self._options.turn_detector_limit,
            )
        self._path = self._frame_path()

    def _frame_path(self) -> Callable[[AudioFrame], None]:
        """Return what takes a frame: the stages in order, everything that is fixed looked up once."""
        parts, rate = self._parts, self._rate
        path = partial(_fan_out, self._consumers(parts.denoise.capabilities.sample_rate if parts.denoise else rate))
        if parts.denoise is None or self._denoise is None:
            return path
        clean = partial(_clean, self._denoise.clean, path)
        return _resampled(rate, parts.denoise.capabilities.sample_rate, clean)

    def _consumers(self, rate: int) -> tuple[Callable[[AudioFrame], None], ...]:
        """Return who hears the caller. The VAD is last: what it reports is about frames that the others have."""
        parts = self._parts
        consumers: list[Callable[[AudioFrame], None]] = []
        if parts.stt is not None:
            consumers.append(_resampled(rate, parts.stt.capabilities.sample_rate, self._push_stt))
        if parts.turn_detector is not None and self._predictor is not None:
            wants = parts.turn_detector.capabilities
            if wants.needs_audio:
                consumers.append(_resampled(rate, wants.sample_rate, self._predictor.push))
        if parts.vad is not None:
            consumers.append(_resampled(rate, parts.vad.capabilities.sample_rate, self._push_vad))
        return tuple(consumers)

    def _push_stt(self, frame: AudioFrame) -> None:
        assert self._recognizer is not None
        self._recognizer.push(frame)

    def _push_vad(self, frame: AudioFrame) -> None:
        assert self._vad is not None
        for event in self._vad.push(frame):
            ago = event.ago if self._denoise is None else event.ago + self._denoise.delay
            if isinstance(event, VADSpeechStarted):
                self._on_speech_started(ago)
            elif isinstance(event, VADSpeechEnded):
                self._on_speech_ended(ago)
            else:
                edge = UserVoicePaused if isinstance(event, VADVoicePaused) else UserVoiceResumed
                self._emit(edge(self._clock.now() - ago))

    def _on_speech_started(self, ago: float) -> None:
        self._is_speaking = True
        if self._predictor is not None:
            self._predictor.forget()
        if self._recognizer is not None:
            self._recognizer.speech_started(ago)
        self._emit(UserSpeechStarted(self._clock.now() - ago))

    def _on_speech_ended(self, ago: float) -> None:
        self._is_speaking = False
        if self._recognizer is not None:
            self._recognizer.flush()
        self._emit(UserSpeechEnded(self._clock.now() - ago))

    def _on_stt_event(self, event: STTEvent) -> None:
        if isinstance(event, STTInterim):
            self._emit(UserInterim(text=event.text))
        elif isinstance(event, STTFinal):
            self._emit(UserFinal(text=event.text, audio_seconds=event.audio_seconds))
        else:
            self._emit(UserTurnEnded())

    def _on_stt_failure(self, error: ProviderError, recovered: bool) -> None:
        unheard: list[AudioFrame] = []
        if not recovered and self._recognizer is not None and self._parts.stt is not None:
            take = _resampled(self._parts.stt.capabilities.sample_rate, self._rate, unheard.append)
            for frame in self._recognizer.take_unheard():
                take(frame)
        self._emit(PipelineFailed(error, recovered, "stt", tuple(unheard)))

    def _on_vad_failure(self, error: ProviderError, has_given_up: bool) -> None:
        if self._is_speaking:  # a new stream would report another start, and none would report this end
            self._on_speech_ended(0.0)
        self._emit(PipelineFailed(error, not (has_given_up and self._needs_vad), "vad"))

    def _on_denoise_failure(self, error: ProviderError) -> None:
        self._emit(PipelineFailed(error, True, "denoise"))

    def _on_detector_failure(self, error: ProviderError) -> None:
        self._emit(PipelineFailed(error, True, "turn_detector"))

    def _on_filter_error(self, error: Exception) -> None:
        self._emit(PipelineFailed(error, True, "text_filter"))

    def _on_verdict(self, verdict: EndOfTurnPrediction) -> None:
        self._emit(UserTurnPredicted(verdict.complete, verdict.probability))


def check_listening(parts: CascadingComponents, pipeline: str) -> None:
    """Refuse components that are not what their names say, or that need another one to listen.

    Raises:
        ConfigurationError: One is of another port.
        CapabilityError: One needs another one.
    """
    maker = f"{pipeline.capitalize()}Pipeline"
    for kind, port in _PORTS.items():
        part = getattr(parts, kind)
        if part is not None and not isinstance(part, port):
            raise ConfigurationError(
                f"{kind} must be an instance of {port.__name__}, got {shown(part)}"
                + ("; call the class" if isinstance(part, type) else "")
            )
    if parts.stt is not None and parts.stt.capabilities.needs_flush and parts.vad is None:
        raise CapabilityError(
            parts.stt.provider, "end of speech without flush()", f"give {maker} a vad, such as silero.VAD()"
        )
    detector = parts.turn_detector
    if detector is not None and detector.capabilities.needs_transcript and parts.stt is None:
        raise CapabilityError(detector.provider, "verdicts without a transcript", f"give {maker} an stt")


def _is_answer(event: LLMEvent) -> bool:
    return not isinstance(event, _REMARKS)


def _ignore(_: AudioFrame) -> None:
    """Take a frame before the streams are open, or after they are closed."""


def _fan_out(consumers: tuple[Callable[[AudioFrame], None], ...], frame: AudioFrame) -> None:
    for consume in consumers:
        consume(frame)


def _clean(denoise: Callable[[AudioFrame], AudioFrame], then: Callable[[AudioFrame], None], frame: AudioFrame) -> None:
    then(denoise(frame))


def _resampled(rate: int, wanted: int, then: Callable[[AudioFrame], None]) -> Callable[[AudioFrame], None]:
    """Return `then` itself if the rates are equal."""
    if rate == wanted:
        return then
    push = Resampler(rate, wanted).push

    def resample(frame: AudioFrame) -> None:
        changed = push(frame)
        if changed.data:
            then(changed)

    return resample
