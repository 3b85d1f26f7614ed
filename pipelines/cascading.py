"""CascadingPipeline: speech to text, a language model and text to speech in a row."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, first_error
from vivavoce.pipelines.core.retry import RetryOptions, retry_stream
from vivavoce.pipelines.core.tending import Tending
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.listening.ears import Ears
from vivavoce.pipelines.listening.ears_change import EarsChange
from vivavoce.pipelines.llm.base import LLM, LLM_EVENTS, Done, GenerateRequest, LLMEvent, Usage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import (
    ConnectionChange,
    Pipeline,
    PipelineCapabilities,
    PipelineConnection,
    PipelineContext,
    check_free,
)
from vivavoce.pipelines.speaking.text_voice import TextVoice
from vivavoce.pipelines.speaking.voice import Voice
from vivavoce.pipelines.speech import ComponentSet, Parts, SpeechComponents, SpeechOptions, check_port
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.tts.base import TTS, AudioChunk
from vivavoce.pipelines.turn_detector.base import TurnDetector
from vivavoce.pipelines.turn_detector.found import found_detector
from vivavoce.pipelines.vad.base import VAD

DEFAULT_OUTPUT_RATE = 24000
"""Hz in the capabilities of a pipeline without a TTS."""
_REMARKS = (Usage, Done)


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadingOptions(SpeechOptions):
    """How a cascading pipeline speaks and handles failures.

    Each option: docs/options.md.
    """

    find_turn_detector: bool = True
    """Whether a cascade without a turn detector has smart_turn's, if `vivavoce models get smart_turn` was run here."""
    llm_retry: RetryOptions = field(default_factory=RetryOptions)
    """Tries of a model step, until its first word or tool call."""


class CascadingPipeline(Pipeline):
    """Listens with an STT, answers with an LLM (or a conversation flow), speaks with a TTS.

    Pipelines may share components, and the code that made a component closes it. A pipeline serves one session at a
    time.

    Args:
        stt: Without it the agent does not hear; the caller may type.
        llm: Without it answers come from a ConversationFlow only.
        tts: Without it, beside an llm, the session is one of text: `say` and answers go to the room's text stream, and
            the sent text counts as heard. The caller speaks, or types (`session.input.text`).
        vad: Reports when the user speaks; without it only transcripts show that.
        denoise: Cleans the audio before VAD, STT and turn detector.
        turn_detector: Judges pauses. Without it, beside an stt and a vad, smart_turn's if you have got its weights
            (`vivavoce models get smart_turn`), unless `options.find_turn_detector` is off.
    Raises:
        ConfigurationError: A component is of another port, or there is neither an stt nor an llm nor a tts.
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
        self.options = options or CascadingOptions()
        if stt is None and llm is None and tts is None:
            raise ConfigurationError("needed an stt, an llm or a tts, got none; a pipeline listens, answers or speaks")
        check_port("llm", llm, LLM)
        self._compose(llm, SpeechComponents(stt=stt, tts=tts, vad=vad, denoise=denoise, turn_detector=turn_detector))

    def _compose(self, llm: LLM | None, components: SpeechComponents) -> None:
        components.check("CascadingPipeline")
        self.llm = llm
        if self.options.find_turn_detector and components.lacks_detector:
            components = replace(components, turn_detector=found_detector())
        self.components = components
        self.text_filters = self.options.text_filters if components.tts is not None else ()
        self._connection: CascadingConnection | None = None

    def _composed(self, components: ComponentSet) -> CascadingPipeline:
        other = copy(self)
        other._compose(components.llm or self.llm, self.components.having(components))
        return other

    def _is_like(self, other: Pipeline) -> bool:
        """Return whether `other` is a cascade of the same components and options."""
        return (
            isinstance(other, CascadingPipeline)
            and other.llm is self.llm
            and other.components == self.components
            and other.options is self.options
        )

    @property
    def capabilities(self) -> PipelineCapabilities:
        """Computed from the components, each time: the model of a fallback is the one in use."""
        llm, parts = self.llm, self.components
        present = dict(self.parts())
        return PipelineCapabilities(
            can_listen=parts.stt is not None,
            can_say=parts.tts is not None or llm is not None,
            speaks=parts.tts is not None,
            can_reply=llm is not None,
            sends_transcripts=parts.stt is not None,
            supports_images=llm is not None and llm.capabilities.supports_images,
            sees_turns=llm is not None and llm.capabilities.supports_images,
            can_preempt=llm is not None,
            takes_flow=parts.tts is not None or llm is not None,
            output_rate=parts.tts.capabilities.sample_rate if parts.tts else DEFAULT_OUTPUT_RATE,
            **parts.listening(),
            components=tuple((kind, each.provider, each.model) for kind in _KINDS if (each := present.get(kind))),
        )

    def parts(self) -> Parts:
        """Yield kind and component of each part."""
        if self.llm is not None:
            yield "llm", self.llm
        yield from self.components.present()

    def open(self, context: PipelineContext) -> CascadingConnection:
        """Return the connection of one session; after its `aclose()` the pipeline may be opened again.

        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """
        check_free(self, self._connection)
        self._connection = CascadingConnection(self, context)
        return self._connection


_KINDS = ("stt", "llm", "tts", "vad", "denoise", "turn_detector")
"""The components in the order of records."""


class CascadingConnection(PipelineConnection):
    """One session's ears, model and voice."""

    def __init__(self, pipeline: CascadingPipeline, context: PipelineContext) -> None:
        options = pipeline.options
        self._context = context
        self._llm_retry = options.llm_retry
        self._ears = Ears(pipeline.components, options, context)
        self._tending = pipeline.components.tending(pipeline.llm)
        self._speak_with(pipeline, self._tending)

    def _speak_with(self, pipeline: CascadingPipeline, tending: Tending) -> None:
        """Have the model and the voice of that pipeline serve from the next request on."""
        self._tending = self._tending.followed_by(tending)
        tts, context = pipeline.components.tts, self._context
        self._llm = pipeline.llm
        self._voice: Voice | TextVoice | None = None
        if tts is not None:
            self._voice = Voice(tts, pipeline.options, context.clock, context.emit)
        elif pipeline.llm is not None:
            self._voice = TextVoice(DEFAULT_OUTPUT_RATE)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open the streams and recognise until cancelled. One task, and others for a turn detector and a fallback."""
        self._ears.open()
        if not self._tending.needs_task:
            await self._ears.run(task_status=task_status)
            return
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._tending.run)
                await self._ears.run(task_status=task_status)
        except ExceptionGroup as failures:
            raise first_error(failures) from failures

    def push_audio(self, frame: AudioFrame) -> None:
        """Take the caller's next frame."""
        self._ears.push(frame)

    def audio_stopped(self) -> None:
        """Have the recogniser settle the open utterance; later audio begins in silence."""
        self._ears.stop()

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Run one model step, with further tries until it has yielded text or a call.

        Raises:
            CapabilityError: There is no LLM.
        """
        llm = self._llm
        if llm is None:
            remedy = (
                "give CascadingPipeline an llm, the session a flow, or its graph PatternIntents(), a body for each "
                "state and fallback bodies"
            )
            raise CapabilityError("cascading", "can_reply", remedy)
        step = partial(guarded, partial(llm.generate, request), LLM_EVENTS, llm.provider)
        return retry_stream(step, self._llm_retry, _is_answer)

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text, whole or as it comes; word times count from the start of all of it.

        Raises:
            CapabilityError: There is no TTS.
        """
        if self._voice is None:
            raise CapabilityError("cascading", "can_say", "give CascadingPipeline a tts")
        return self._voice.speak(text)

    def commit_audio(self) -> None:
        """Have the recogniser settle the open utterance; continuing speech is another utterance from here on."""
        self._ears.commit()

    def clear_audio(self) -> None:
        """Have the recogniser forget the open utterance; if the speech continues, its rest is heard."""
        self._ears.clear()

    def predict_end_of_turn(self, text: str, agent_text: str) -> None:
        """Ask the turn detector in the background; a newer question or new speech replaces the question."""
        self._ears.predict_end_of_turn(text, agent_text)

    def change(self, pipeline: Pipeline, on_failure: Callable[[Exception], None]) -> ConnectionChange | None:
        """Return the change to another cascade, which keeps the streams of the components that stay."""
        if not isinstance(pipeline, CascadingPipeline):
            return None
        tending = pipeline.components.tending(pipeline.llm)
        return EarsChange(
            self._ears,
            pipeline.components,
            self._context.emit,
            on_take=partial(self._speak_with, pipeline, tending),
            on_failure=on_failure,
            tending=tending,
        )

    async def aclose(self) -> None:
        """Free VAD, denoiser and detector; the recogniser's stream ended with `run()`."""
        self.is_closed = True
        self._ears.close()


def _is_answer(event: LLMEvent) -> bool:
    return not isinstance(event, _REMARKS)
