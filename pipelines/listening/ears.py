"""Ears: one session's listening, from a frame of the caller to the events of a pipeline.

The way of a frame is synchronous: `Ears.push` calls the denoiser, then each of the stages in order. A transcript goes
from the STT's stream to the `Recognizer`, which emits it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.errors import ProviderError, first_error
from vivavoce.pipelines.events import (
    PipelineEvent,
    PipelineFailed,
    RecogniserBack,
    RecogniserLost,
    RecogniserReplaced,
    UserSpeechEnded,
    UserSpeechStarted,
    UserVoicePaused,
    UserVoiceResumed,
)
from vivavoce.pipelines.listening.denoising import Denoising
from vivavoce.pipelines.listening.recognizer import Recognizer
from vivavoce.pipelines.listening.stages import Listener, Resampled, resampled
from vivavoce.pipelines.listening.turn_predictor import TurnPredictor
from vivavoce.pipelines.listening.voice_activity import VoiceActivity
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import ONSET_SECONDS, PipelineContext
from vivavoce.pipelines.speech import TURN_DETECTOR_LIMIT, SpeechComponents, SpeechOptions
from vivavoce.pipelines.stt.base import warn_of_key_terms
from vivavoce.pipelines.turn_detector.base import TurnContext
from vivavoce.pipelines.vad.base import VADEvent, VADSpeechEnded, VADSpeechStarted, VADVoicePaused

LAST_UTTERANCE = 10.0
"""Seconds for which a recogniser hears the end of an utterance during which its successor took over."""


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """The way of a frame, from `rate` to the rate that a stage wants."""

    stage: Listener
    rate: int
    wanted: int
    listener: Listener


@dataclass(frozen=True, slots=True, eq=False)
class _Leaving:
    """A recogniser whose successor took over during speech; it hears that speech to its end, or until `until`."""

    recognizer: Recognizer
    until: float


@dataclass(frozen=True, slots=True, eq=False)
class EarParts:
    """The stages of one session's listening; each may be absent."""

    components: SpeechComponents
    denoising: Denoising | None
    recognizer: Recognizer | None
    predictor: TurnPredictor | None
    activity: VoiceActivity | None

    @property
    def streams(self) -> list[Denoising | VoiceActivity | TurnPredictor]:
        """The stages whose streams open without waiting."""
        return [part for part in (self.denoising, self.activity, self.predictor) if part is not None]


class Ears:
    """Hears the caller with a denoiser, an STT, a turn detector and a VAD, each of which may be absent.

    Args:
        context: The session's. Events go to its `emit`.
        needs_vad: Whether the pipeline is lost when the VAD is given up.
        model: A realtime model's stage, which receives the denoised audio.
        model_rate: Hz of the audio for `model`.
    """

    def __init__(
        self,
        components: SpeechComponents,
        options: SpeechOptions,
        context: PipelineContext,
        *,
        needs_vad: bool = False,
        model: Listener | None = None,
        model_rate: int = 0,
    ) -> None:
        self._clock = context.clock
        self._emit = context.emit
        self._context = context
        self._options = options
        self._model_needs_vad = needs_vad
        self._model, self._model_rate = model, model_rate
        self.is_speaking = False
        """Whether the caller is speaking, by the VAD."""
        self._spoke_at = 0.0
        self._behind = 0.0
        """Seconds of audio that follow the present frame, while earlier audio is heard."""
        self._recents: list[RecentFrames] = []
        """The last audio, one buffer for each change of components that is being prepared."""
        self._ways: tuple[_Way, ...] = ()
        self._leaving: _Leaving | None = None
        """The recogniser that still hears an utterance after its successor took over."""
        self._settling: Recognizer | None = None
        """The recogniser that was left last and may still settle the caller's last speech."""
        self._set_up(self._made(components, context, None))

    def _made(self, components: SpeechComponents, context: PipelineContext, old: EarParts | None) -> EarParts:
        """Return the stages of `components`: the stages of `old` for the components that stay, and new ones."""

        def stays(kind: str) -> bool:
            return old is not None and getattr(old.components, kind) is getattr(components, kind)

        stt, detector, vad, denoise = components.stt, components.asked_detector, components.vad, components.denoise
        denoising, recognizer, predictor, activity = (
            (None, None, None, None) if old is None else (old.denoising, old.recognizer, old.predictor, old.activity)
        )
        if not stays("denoise"):
            denoising = None if denoise is None else Denoising(denoise, context.input_rate, context.emit)
        if not stays("stt"):
            recognizer = None if stt is None else Recognizer(stt, self._options.stt_reconnect, context)
            if context.key_terms and not (stt is not None and stt.capabilities.takes_key_terms):
                warn_of_key_terms(stt)
        if not stays("asked_detector"):
            predictor = None if detector is None else TurnPredictor(detector, TURN_DETECTOR_LIMIT, context)
        if not stays("vad"):
            activity = None
            if vad is not None:
                activity = VoiceActivity(vad, self._clock, self._on_vad_event, self._on_vad_failure)
        return EarParts(components, denoising, recognizer, predictor, activity)

    def _set_up(self, parts: EarParts) -> None:
        """Connect the stages to the frames."""
        components, leaving = parts.components, self._leaving
        stt, detector, vad, denoise = components.stt, components.asked_detector, components.vad, components.denoise
        self._parts = parts
        self._needs_vad = self._model_needs_vad or (stt is not None and stt.capabilities.needs_flush)
        self._denoising, self._recognizer = parts.denoising, parts.recognizer if leaving is None else leaving.recognizer
        self._predictor, self._activity = parts.predictor, parts.activity
        self._rate = self._context.input_rate if denoise is None else denoise.capabilities.sample_rate
        ways: list[_Way] = []
        if self._model is not None:
            ways.append(self._way(self._model, self._model_rate))
        if self._recognizer is not None:
            ways.append(self._way(self._recognizer, self._recognizer.rate))
        if detector is not None and self._predictor is not None and detector.capabilities.needs_audio:
            ways.append(self._way(self._predictor, detector.capabilities.sample_rate))
        if vad is not None and self._activity is not None:  # last: its events are about frames that the others have
            ways.append(self._way(self._activity, vad.capabilities.sample_rate))
        self._ways = tuple(ways)
        self._stages = (*(way.listener for way in ways), *self._recents)

    def _way(self, stage: Listener, wanted: int) -> _Way:
        """Return the way of a frame to that stage: the present one if nothing on it changes."""
        for way in self._ways:
            if way.stage is stage and way.rate == self._rate:
                return way
        return _Way(stage, self._rate, wanted, resampled(stage, self._rate, wanted))

    @property
    def stages(self) -> list[object]:
        """The way of a frame, in order, to print."""
        return [*([] if self._denoising is None else [self._denoising]), *self._stages]

    @property
    def has_vad(self) -> bool:
        """Whether a VAD reports the caller's speech: there is one, and it was not given up."""
        return self._activity is not None and self._activity.stream is not None

    @property
    def delay(self) -> float:
        """Seconds by which the denoiser, with the rate that it needs, delays the audio."""
        return 0.0 if self._denoising is None else self._denoising.delay

    @property
    def parts(self) -> EarParts:
        """The stages of the ears."""
        return self._parts

    # --- lifetime

    def open(self) -> None:
        """Open the streams that work without waiting.

        Raises:
            ProviderError: One cannot be opened.
        """
        for stage in self._parts.streams:
            stage.open()

    @property
    def needs_task(self) -> bool:
        """Whether `run()` has something to do."""
        return self._recognizer is not None or self._predictor is not None

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Recognise until cancelled. One task, and a second one for a turn detector.

        Raises:
            ProviderError: The recogniser cannot be opened.
        """
        if self._predictor is None:
            await self._recognise(task_status)
            return
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._predictor.run)
                await self._recognise(task_status)
        except ExceptionGroup as group:
            raise first_error(group) from group

    async def _recognise(self, task_status: TaskStatus[None]) -> None:
        if self._recognizer is not None:
            await self._recognizer.run(task_status=task_status)
        else:
            task_status.started()
            await anyio.Event().wait()  # no timer: asyncio keeps a cancelled one for long, with the session

    def close(self) -> None:
        """Close the streams that `open()` opened; the recogniser's stream ended with `run()`."""
        for stage in self._parts.streams:
            stage.close()

    # --- the caller's audio

    def push(self, frame: AudioFrame) -> None:
        """Take the caller's next frame, mono, at the context's `input_rate`."""
        if self._denoising is not None:
            frame = self._denoising.push(frame)
            if not frame.data:
                return
        for stage in self._stages:
            stage.push(frame)
        if self._leaving is not None and self._clock.now() >= self._leaving.until:
            self._leave()

    def stop(self) -> None:
        """Have the recogniser settle its utterance, since the audio stops; later audio begins in silence."""
        if self._activity is not None:
            self._activity.reset()
        if self._recognizer is not None and self._is_unsettled(self._recognizer):
            self._recognizer.flush()
        self.is_speaking = False
        self._leave()

    def commit(self) -> None:
        """Have the recogniser settle its utterance, since the turn is over. Speech that goes on is another
        utterance."""
        if self._recognizer is not None and self._is_unsettled(self._recognizer):
            self._recognizer.flush()
            self._begin_rest(self._recognizer)

    def clear(self) -> None:
        """Have the recogniser forget its utterance. Speech that goes on is another utterance."""
        if self._recognizer is not None:
            self._recognizer.discard()
            self._begin_rest(self._recognizer)

    def _is_unsettled(self, recognizer: Recognizer) -> bool:
        """Return whether the recogniser may have audio that neither the end of speech nor its own judgement settles."""
        if recognizer.decides_turns:
            return not recognizer.has_ended_turn
        return self.is_speaking or not self.has_vad

    def _begin_rest(self, recognizer: Recognizer) -> None:
        if self.is_speaking:
            recognizer.speech_started(0.0)

    def predict_end_of_turn(self, text: str, agent_text: str) -> None:
        """Ask the turn detector, if any, in the background. A newer question or new speech replaces the question."""
        if self._predictor is not None:
            self._predictor.ask(TurnContext(text=text, agent_text=agent_text))

    # --- other components

    def others(self, components: SpeechComponents, emit: Callable[[PipelineEvent], None]) -> EarParts:
        """Return the stages for other components, with the present stages of components that stay; new stages send
        events to `emit`."""
        return self._made(components, replace(self._context, emit=emit), self._parts)

    def keep_recent(self) -> RecentFrames:
        """Keep the last `ONSET_SECONDS` of audio for new components, until `take()` or `forget_recent()`."""
        recent = RecentFrames(ONSET_SECONDS)
        self._recents.append(recent)
        self._stages = (*self._stages, recent)
        return recent

    def forget_recent(self, recent: RecentFrames) -> None:
        """Stop keeping that audio."""
        self._recents = [other for other in self._recents if other is not recent]
        self._stages = tuple(stage for stage in self._stages if stage is not recent)

    def take(self, parts: EarParts, recent: RecentFrames | None) -> EarParts:
        """Hear with these stages from now on, and return the stages before. New stages hear the `recent` audio first.

        If the caller is speaking, report a new start of speech; end a speech that only the old VAD reported. The old
        recogniser hears the speech to its end, for `LAST_UTTERANCE` at most; the new one begins after that.
        """
        if self.is_speaking and parts.activity is not self._parts.activity:
            self._on_speech_ended(0.0)
        self._leave()
        self._become_past()
        old, rate = self._parts, self._rate
        if recent is not None:
            self.forget_recent(recent)
        before = [way.stage for way in self._ways]
        if old.recognizer is not None and old.recognizer is not parts.recognizer:
            self._replace(old.recognizer)
        self._set_up(parts)
        frames = [] if recent is None else recent.drain()
        new = [way for way in self._ways if not any(way.stage is stage for stage in before)]
        hears = [way.listener if way.rate == rate else resampled(way.stage, rate, way.wanted) for way in new]
        self._behind = sum(frame.duration for frame in frames)
        for frame in frames:
            self._behind -= frame.duration
            for stage in hears:
                stage.push(frame)
        self._behind = 0.0
        if self._recognizer is not None and self._recognizer.is_lost:
            self._emit(RecogniserLost())
        if self.is_speaking and parts.activity is old.activity:
            self._emit(UserSpeechStarted(self._spoke_at))
        return old

    def _replace(self, recognizer: Recognizer) -> None:
        """Leave a recogniser: at once in silence, otherwise when its utterance is over."""
        if self.is_speaking:
            self._leaving = _Leaving(recognizer, self._clock.now() + LAST_UTTERANCE)
            recognizer.hear_out(self._leave)
            return
        if self._is_unsettled(recognizer):
            recognizer.flush()  # no end of speech will be reported to it
        recognizer.become_past()
        recognizer.leave()

    def _leave(self) -> None:
        """Have the recogniser settle its last utterance and leave it; its successor hears from now on."""
        if self._leaving is None:
            return
        old, self._leaving = self._leaving.recognizer, None
        if self._is_unsettled(old):
            old.flush()
        old.leave()
        self._settling = old
        self._set_up(self._parts)
        if self.is_speaking:
            self._become_past()
        if self._recognizer is not None:
            self._begin_rest(self._recognizer)
            if old.is_lost != self._recognizer.is_lost:
                self._emit(RecogniserBack() if old.is_lost else RecogniserLost())

    def _become_past(self) -> None:
        """Note that words from now on come from the present recogniser, and not from the one before."""
        if self._settling is not None:
            self._settling.become_past()
            self._settling = None
            self._emit(RecogniserReplaced())

    # --- the VAD

    def _on_vad_event(self, event: VADEvent) -> None:
        ago = event.ago + self._behind + self.delay
        ago += sum(way.listener.held for way in self._ways[-1:] if isinstance(way.listener, Resampled))
        if isinstance(event, VADSpeechStarted):
            self._on_speech_started(ago)
        elif isinstance(event, VADSpeechEnded):
            self._on_speech_ended(ago)
        else:
            is_paused = isinstance(event, VADVoicePaused)
            if self._recognizer is not None:
                self._recognizer.voice_changed(is_paused=is_paused)
            edge = UserVoicePaused if is_paused else UserVoiceResumed
            self._emit(edge(self._clock.now() - ago))

    def _on_speech_started(self, ago: float) -> None:
        self.is_speaking = True
        if self._predictor is not None:
            self._predictor.forget()
        if self._recognizer is not None:
            self._recognizer.speech_started(ago)
        self._spoke_at = self._clock.now() - ago
        self._emit(UserSpeechStarted(self._spoke_at))
        self._become_past()

    def _on_speech_ended(self, ago: float) -> None:
        self.is_speaking = False
        if self._recognizer is not None:
            self._recognizer.speech_ended()
        for recent in self._recents:
            recent.forget_until(ago - self.delay)  # of one utterance only one recogniser settles words
        self._leave()
        self._emit(UserSpeechEnded(self._clock.now() - ago))

    def _on_vad_failure(self, error: ProviderError, has_given_up: bool) -> None:
        if self.is_speaking:  # a new stream would report another start, and none would report this end
            self._on_speech_ended(0.0)
        self._emit(PipelineFailed(error, not (has_given_up and self._needs_vad), "vad"))
