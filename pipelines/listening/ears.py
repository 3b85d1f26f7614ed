"""Ears: one session's listening, from a frame of the caller to the events of a pipeline.

The way of a frame is synchronous: `Ears.push` calls the denoiser, then each of the stages in order. A transcript goes
from the STT's stream to the `Recognizer`, which emits it.
"""

from __future__ import annotations

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.errors import ProviderError, first_error
from vivavoce.pipelines.events import (
    PipelineFailed,
    UserSpeechEnded,
    UserSpeechStarted,
    UserVoicePaused,
    UserVoiceResumed,
)
from vivavoce.pipelines.listening.denoising import Denoising
from vivavoce.pipelines.listening.recognizer import Recognizer
from vivavoce.pipelines.listening.stages import Listener, resampled
from vivavoce.pipelines.listening.turn_predictor import TurnPredictor
from vivavoce.pipelines.listening.voice_activity import VoiceActivity
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.speech import SpeechComponents, SpeechOptions
from vivavoce.pipelines.turn_detector.base import TurnContext
from vivavoce.pipelines.vad.base import VADEvent, VADSpeechEnded, VADSpeechStarted, VADVoicePaused


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
        stt, detector, vad, denoise = components.stt, components.turn_detector, components.vad, components.denoise
        self._clock = context.clock
        self._emit = context.emit
        self._needs_vad = needs_vad or (stt is not None and stt.capabilities.needs_flush)
        self._denoising = None if denoise is None else Denoising(denoise, context.input_rate, self._emit)
        self._recognizer = None if stt is None else Recognizer(stt, options.stt_reconnect, context)
        self._predictor = None if detector is None else TurnPredictor(detector, options.turn_detector_limit, context)
        self._activity = (
            None if vad is None else VoiceActivity(vad, self._clock, self._on_vad_event, self._on_vad_failure)
        )
        self.is_speaking = False
        """Whether, by the VAD, the caller speaks."""

        rate = context.input_rate if denoise is None else denoise.capabilities.sample_rate
        stages: list[Listener] = []
        if model is not None:
            stages.append(resampled(model, rate, model_rate))
        if stt is not None and self._recognizer is not None:
            stages.append(resampled(self._recognizer, rate, stt.capabilities.sample_rate))
        if detector is not None and self._predictor is not None and detector.capabilities.needs_audio:
            stages.append(resampled(self._predictor, rate, detector.capabilities.sample_rate))
        if vad is not None and self._activity is not None:  # last: its events are about frames that the others have
            stages.append(resampled(self._activity, rate, vad.capabilities.sample_rate))
        self._stages = tuple(stages)

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
        """Seconds by which the denoiser delays the audio."""
        return 0.0 if self._denoising is None else self._denoising.delay

    # --- lifetime

    def open(self) -> None:
        """Open the streams that work without waiting.

        Raises:
            ProviderError: One cannot be opened.
        """
        for stage in (self._denoising, self._activity, self._predictor):
            if stage is not None:
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
            await anyio.sleep_forever()

    def close(self) -> None:
        """Close the streams that `open()` opened; the recogniser's stream ended with `run()`."""
        for stage in (self._denoising, self._activity, self._predictor):
            if stage is not None:
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

    def stop(self) -> None:
        """The audio stops: have the recogniser settle its utterance; later audio begins in silence."""
        if self._activity is not None:
            self._activity.reset()
        if self._recognizer is not None and (self.is_speaking or not self.has_vad):
            self._recognizer.flush()
        self.is_speaking = False

    def commit(self) -> None:
        """The turn is over: have the recogniser settle its utterance. Continuing speech is another utterance."""
        if self._recognizer is not None and (self.is_speaking or not self.has_vad):
            self._recognizer.flush()
            self._begin_rest(self._recognizer)

    def clear(self) -> None:
        """Have the recogniser forget its utterance. If the speech continues, the rest of it is another utterance."""
        if self._recognizer is not None:
            self._recognizer.discard()
            self._begin_rest(self._recognizer)

    def _begin_rest(self, recognizer: Recognizer) -> None:
        if self.is_speaking:
            recognizer.speech_started(0.0)

    def predict_end_of_turn(self, text: str, agent_text: str) -> None:
        """Ask the turn detector, if any, in the background; a newer question or new speech replaces the question."""
        if self._predictor is not None:
            self._predictor.ask(TurnContext(text=text, agent_text=agent_text))

    # --- the VAD

    def _on_vad_event(self, event: VADEvent) -> None:
        ago = event.ago if self._denoising is None else event.ago + self._denoising.delay
        if isinstance(event, VADSpeechStarted):
            self._on_speech_started(ago)
        elif isinstance(event, VADSpeechEnded):
            self._on_speech_ended(ago)
        else:
            edge = UserVoicePaused if isinstance(event, VADVoicePaused) else UserVoiceResumed
            self._emit(edge(self._clock.now() - ago))

    def _on_speech_started(self, ago: float) -> None:
        self.is_speaking = True
        if self._predictor is not None:
            self._predictor.forget()
        if self._recognizer is not None:
            self._recognizer.speech_started(ago)
        self._emit(UserSpeechStarted(self._clock.now() - ago))

    def _on_speech_ended(self, ago: float) -> None:
        self.is_speaking = False
        if self._recognizer is not None:
            self._recognizer.flush()
        self._emit(UserSpeechEnded(self._clock.now() - ago))

    def _on_vad_failure(self, error: ProviderError, has_given_up: bool) -> None:
        if self.is_speaking:  # a new stream would report another start, and none would report this end
            self._on_speech_ended(0.0)
        self._emit(PipelineFailed(error, not (has_given_up and self._needs_vad), "vad"))
