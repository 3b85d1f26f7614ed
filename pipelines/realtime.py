"""RealtimePipeline: a speech-to-speech model under the same session as a cascade.

Three independent choices make its modes:

* **The voice of an answer.** `RealtimeOptions.answers`: the model answers with speech, or it answers with text and the
  tts speaks. `say` goes word for word through the tts if there is one; else the model is asked to say it, by a request
  marked as such.
* **The source of the caller's words.** The stt if there is one; else the model's own transcripts, which may come after
  the answer. They enter the history at their turn's place, whenever they come.
* **Who decides that a turn is over: the vad, if there is one.** With a vad the session decides, as in a cascade: by
  pauses, the turn detector, push to talk; the model receives a commit, and hears only the caller's turns. Without one
  the model's server decides. `RealtimeOptions.turn_detection="remote"` keeps the server in charge beside a vad, which
  then only reports speech sooner.

A denoiser cleans the audio before the model, the vad and the stt hear it.

Differences from a cascade:

* Without an stt, a turn needs no words, since they come too late: speech that the vad hears is a turn, and takes the
  floor at its end if it is longer than `interruption.min_duration`; shorter speech beside the agent's is dropped as a
  backchannel. Noise cannot be distinguished from speech. With an stt all is as in a cascade.
* An answer cannot be begun ahead (`preemptive`): the remote conversation keeps each request.
* The result of `on_user_turn_completed` enters the history; the model has heard the caller itself. The model receives
  the instructions that the hook adds. A turn that the hook drops (`StopResponse`), or a message that an application
  removes from the history, is removed from the remote conversation if the model can do so (`deletes`); else it stays.
* A `ConversationFlow` is refused: the model answers the audio.
* A running tool is not shown as such: the model keeps the open call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines import events as ev
from vivavoce.pipelines.core.checks import check_choice, check_instance, shown
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderError, first_error
from vivavoce.pipelines.core.retry import RetryOptions, retry_stream
from vivavoce.pipelines.core.tending import Tending
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.listening.ears import Ears
from vivavoce.pipelines.listening.ears_change import EarsChange
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, Usage
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.pipeline import (
    ConnectionChange,
    Pipeline,
    PipelineCapabilities,
    PipelineConnection,
    PipelineContext,
    check_free,
)
from vivavoce.pipelines.realtime_model import events as rt
from vivavoce.pipelines.realtime_model.base import RealtimeModel, RealtimeSetup, TurnDetection
from vivavoce.pipelines.realtime_model.conversation import ModelConversation
from vivavoce.pipelines.realtime_model.model_voice import ModelVoice
from vivavoce.pipelines.realtime_model.reconnecting import ReconnectingModel
from vivavoce.pipelines.realtime_model.turn_audio import TurnAudio
from vivavoce.pipelines.speaking.voice import Voice
from vivavoce.pipelines.speech import ComponentSet, Parts, SpeechComponents, SpeechOptions
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.tts.base import TTS, AudioChunk
from vivavoce.pipelines.turn_detector.base import TurnDetector
from vivavoce.pipelines.vad.base import VAD

_Answer = AsyncGenerator[LLMEvent | AudioChunk, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeOptions(SpeechOptions):
    """How a realtime pipeline is built, speaks with its own tts, and handles failures.

    Each option: docs/options.md.
    """

    turn_detection: TurnDetection | None = None
    """Who ends the user's turns. None: the session (`local`) if there is a vad, else the model's server (`remote`).
    With `remote` a vad only reports, sooner than the server, that the user speaks."""
    answers: Literal["audio", "text"] | None = None
    """Whether the model answers with speech or with text for a tts. None: speech, if it can."""
    reconnect: RetryOptions = field(default_factory=lambda: RetryOptions(waits=(0.5, 0.5)))
    """Tries of connecting."""
    reply_retry: RetryOptions = field(default_factory=RetryOptions)
    """Tries of an answer, until its first word, audio or tool call. With one retry or more, words that a model spoke
    without audio and without an error are asked for once more."""

    def __post_init__(self) -> None:
        SpeechOptions.__post_init__(self)
        check_choice("turn_detection", self.turn_detection, ("local", "remote", None))
        check_choice("answers", self.answers, ("audio", "text", None))


class RealtimePipeline(Pipeline):
    """Listens, thinks and speaks with one model, helped by other components; the module's docstring has the details.

    Args:
        model: Shared; only connections opened here are closed here.
        stt: Makes the caller's words, in place of the model's transcripts.
        tts: Speaks `say`, and the answers of a model that makes text.
        vad: Reports when the user speaks; with it the session decides when a turn is over.
        denoise: Cleans the audio before model, VAD, STT and turn detector.
        turn_detector: Judges pauses; needs the vad, and the stt if it judges by words.
        fallback: Goes on with the call if the model fails, at the start or later, for example a cascade.
    Raises:
        ConfigurationError: A component is of another port.
        CapabilityError: The model, or another component, lacks a needed capability; the error names the remedy.
    """

    name = "realtime"

    def __init__(
        self,
        model: RealtimeModel,
        *,
        stt: STT | None = None,
        tts: TTS | None = None,
        vad: VAD | None = None,
        denoise: Denoiser | None = None,
        turn_detector: TurnDetector | None = None,
        options: RealtimeOptions | None = None,
        fallback: Pipeline | None = None,
    ) -> None:
        if not isinstance(model, RealtimeModel):
            raise ConfigurationError(f"model must be an instance of RealtimeModel, got {shown(model)}")
        if fallback is not None and not isinstance(fallback, Pipeline):
            raise ConfigurationError(f"fallback must be a Pipeline, got {shown(fallback)}; such as a cascading one")
        check_instance("options", options, RealtimeOptions, or_none=True)
        self.model = model
        self.fallback = fallback
        self.options = options or RealtimeOptions()
        self._compose(SpeechComponents(stt=stt, tts=tts, vad=vad, denoise=denoise, turn_detector=turn_detector))

    def _compose(self, components: SpeechComponents) -> None:
        components.check("RealtimePipeline")
        model, tts, vad = self.model, components.tts, components.vad
        can = model.capabilities
        self.components = components
        self.text_filters = self.options.text_filters if tts is not None else ()
        self.answers = self.options.answers or ("audio" if can.generates_audio else "text")
        """Whether the model answers with speech or with text."""
        self.turn_detection: TurnDetection = self.options.turn_detection or ("local" if vad is not None else "remote")
        """The judge of the end of the user's turns."""
        if self.answers == "text" and tts is None:
            raise CapabilityError(model.provider, "generates_audio", "give RealtimePipeline a tts")
        if not (can.generates_audio if self.answers == "audio" else can.generates_text):
            raise CapabilityError(model.provider, f"answers of {self.answers}", "leave out RealtimeOptions.answers")
        if self.turn_detection == "local" and vad is None:
            raise CapabilityError("realtime", "local turn detection", "give RealtimePipeline a vad")
        if self.turn_detection == "remote" and components.turn_detector is not None:
            raise CapabilityError("realtime", "a turn detector beside the server's", "give RealtimePipeline a vad")
        if self.turn_detection not in can.turn_detection:
            remedy = "give RealtimePipeline a vad" if vad is None else "set RealtimeOptions.turn_detection='remote'"
            raise CapabilityError(model.provider, f"{self.turn_detection} turn detection", remedy)
        self._connection: RealtimePipelineConnection | None = None

    def _composed(self, components: ComponentSet) -> RealtimePipeline:
        if components.llm is not None:
            remedy = "use update_pipeline(), with a RealtimePipeline of another model or a CascadingPipeline"
            raise CapabilityError("realtime", "an llm", remedy)
        other = copy(self)
        other._compose(self.components.having(components))
        return other

    def _is_like(self, other: Pipeline) -> bool:
        if not isinstance(other, RealtimePipeline) or other.model is not self.model:
            return False
        return (other.components, other.options) == (self.components, self.options)

    @property
    def capabilities(self) -> PipelineCapabilities:
        """The model's capabilities, completed by the components."""
        model, own = self.model.capabilities, self.components
        return PipelineCapabilities(
            can_say=True,
            decides_turns=self.turn_detection,
            hears_audio=own.stt is None or self.turn_detection == "remote",
            generates_audio=self.answers == "audio",
            truncates=model.truncates,
            sends_transcripts=own.stt is not None or model.sends_transcripts,
            supports_images=model.supports_images,
            takes_video=model.takes_video,
            takes_flow=False,
            keeps_conversation=True,
            output_rate=self.output_rate,
            **own.listening(),
            components=tuple((kind, part.provider, part.model) for kind, part in self.parts()),
        )

    def parts(self) -> Parts:
        """Yield kind and component of each part."""
        yield "realtime_model", self.model
        yield from self.components.present()

    @property
    def output_rate(self) -> int:
        """Hz of the spoken audio."""
        tts = self.components.tts
        if self.answers == "audio" or tts is None:
            return self.model.capabilities.output_rate
        return tts.capabilities.sample_rate

    def open(self, context: PipelineContext) -> RealtimePipelineConnection:
        """Return the connection of one session; after its `aclose()` the pipeline may be opened again.

        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """
        check_free(self, self._connection)
        self._connection = RealtimePipelineConnection(self, context)
        return self._connection


class RealtimePipelineConnection(PipelineConnection):
    """One session's conversation with the model, with ears and voice of the pipeline's own components."""

    def __init__(self, pipeline: RealtimePipeline, context: PipelineContext) -> None:
        parts, options = pipeline.components, pipeline.options
        self._can = pipeline.model.capabilities
        self._clock, self._emit, self._history = context.clock, context.emit, context.history
        self._is_local = pipeline.turn_detection == "local"
        self._instructions, self._tools = context.instructions, tuple(context.tools)
        self._input_rate = context.input_rate
        self._model = ReconnectingModel(
            pipeline.model,
            setup=self._setup,
            on_event=self._on_model_event,
            on_replaced=lambda gap, reason: context.emit(ev.PipelineReplaced("realtime_model", gap, reason)),
            on_failure=self._on_failure,
            clock=context.clock,
            retries=options.reconnect,
            open_limit=context.open_limit,
        )
        self._model.wait_for_words(context.transcript_timeout)
        provider = pipeline.model.provider
        self._conversation = ModelConversation(self._model, provider)
        self._own_voice = ModelVoice(self._model, provider, self._can)
        self._turn_audio = TurnAudio(self._model, is_local=self._is_local)
        self._ears = Ears(
            parts,
            options,
            replace(context, emit=self._on_ears_event),
            needs_vad=self._is_local,
            model=self._turn_audio,
            model_rate=self._can.input_rate,
        )
        self._tending = parts.tending()
        self._speak_with(pipeline, self._tending)

    def _speak_with(self, pipeline: RealtimePipeline, tending: Tending) -> None:
        """Have the voice of that pipeline serve from the next request on."""
        self._tending = self._tending.followed_by(tending)
        tts = pipeline.components.tts
        self._pipeline = pipeline
        rate = pipeline.output_rate
        self._voice = None if tts is None else Voice(tts, pipeline.options, self._clock, self._emit, rate=rate)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Connect and take events until cancelled."""
        self._ears.open()
        if not self._ears.needs_task and not self._tending.needs_task:
            await self._model.run(task_status=task_status)
            return
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._tending.run)
                await group.start(self._ears.run)
                await self._model.run(task_status=task_status)
        except ExceptionGroup as failures:
            raise first_error(failures) from failures

    # --- the caller

    def push_audio(self, frame: AudioFrame) -> None:
        """Take the caller's next frame; without a connection, the model's audio waits for the next one."""
        self._ears.push(frame)

    def audio_stopped(self) -> None:
        """Have the pipeline's own recogniser settle the open utterance."""
        self._ears.stop()

    def commit_audio(self) -> None:
        """End the turn for the model: it hears no more until the caller speaks again."""
        self._ears.commit()
        self._turn_audio.commit(is_speaking=self._ears.is_speaking)

    def clear_audio(self) -> None:
        """Have recogniser and model forget the open turn's audio."""
        self._ears.clear()
        self._turn_audio.clear(is_speaking=self._ears.is_speaking)

    def drop_audio(self) -> None:
        """Have the model forget a turn that is not answered."""
        if self._is_local:
            self._turn_audio.clear(is_speaking=self._ears.is_speaking)

    def predict_end_of_turn(self, text: str, agent_text: str) -> None:
        """Ask the turn detector, if any."""
        self._ears.predict_end_of_turn(text, agent_text)

    # --- answers

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Ask for an answer, with further tries until a part of it has come."""
        retries = self._pipeline.options.reply_retry
        return self._voiced(retry_stream(lambda: self._generate(request), retries, _is_answer))

    def _voiced(self, answer: _Answer) -> _Answer:
        if self._pipeline.answers == "text":
            return answer
        return self._own_voice.voiced(answer, self._pipeline.options.reply_retry)

    async def _generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        self.update(request.instructions or self._instructions, request.tools or self._tools)
        connection = await self._model.live()
        async with aclosing(self._answer(connection.generate(request), is_requested=True)) as answer:
            async for item in answer:
                yield item

    async def _answer(self, stream: _Answer, *, is_requested: bool) -> _Answer:
        with self._conversation.answering(is_requested=is_requested) as answer:
            async with aclosing(stream) as items:
                async for item in items:
                    answer.take(item)
                    yield item

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak with the tts, else have the model say it, as soon as the text is whole."""
        if self._voice is not None:
            return self._voice.speak(text)
        return self._own_voice.say(text, self._pipeline.options.reply_retry)

    def accept(self, remote_reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer that the model began.

        Raises:
            KeyError: There is no such answer.
            ProviderConnectionError: Its connection is lost.
        """
        return self._voiced(self._answer(self._conversation.accept(remote_reply_id), is_requested=False))

    def refuse(self, remote_reply_id: str) -> None:
        """Cancel an answer that the model began."""
        self._conversation.refuse(remote_reply_id)

    # --- the conversation

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Inform the model how much was heard, if it truncates."""
        if self._model.connection is not None and self._can.truncates and item_id in self._model.known:
            self._model.connection.truncate(item_id, played_seconds, heard_text)

    @property
    def conversation(self) -> ModelConversation:
        """The remote model's copy of the history."""
        return self._conversation

    def update(
        self, instructions: str, tools: Sequence[Tool[..., object]], *, is_history_changed: bool = False
    ) -> None:
        """Pass on new instructions and tools, for the next answer."""
        if is_history_changed:
            self._instructions, self._tools = instructions, tuple(tools)
            self._model.replace()
            return
        if (instructions, tuple(tools)) == (self._instructions, self._tools):
            return
        self._instructions, self._tools = instructions, tuple(tools)
        if not self._can.updates:
            self._model.replace()
        elif self._model.connection is not None:
            self._model.connection.update(instructions, tools)

    def change(self, pipeline: Pipeline, on_failure: Callable[[Exception], None]) -> ConnectionChange | None:
        """Return the change to another pipeline, if the model's setup stays; then its connection stays too."""
        if not isinstance(pipeline, RealtimePipeline) or _setup_of(pipeline) != _setup_of(self._pipeline):
            return None
        tending = pipeline.components.tending()
        take, parts = partial(self._speak_with, pipeline, tending), pipeline.components
        return EarsChange(self._ears, parts, self._on_ears_event, on_take=take, on_failure=on_failure, tending=tending)

    async def aclose(self) -> None:
        """Free ears and voice; the model's connection ended with `run()`."""
        self.is_closed = True
        self._ears.close()

    def _setup(self, resume: str) -> RealtimeSetup:
        return RealtimeSetup(
            instructions=self._instructions,
            tools=self._tools,
            turn_detection=self._pipeline.turn_detection,
            answers=self._pipeline.answers,
            transcribe=self._pipeline.components.stt is None,
            history=self._history(),
            resume=resume,
        )

    # --- events

    def _on_ears_event(self, event: ev.PipelineEvent) -> None:
        if isinstance(event, ev.UserSpeechStarted):
            self._turn_audio.speech_started()
        elif isinstance(event, ev.UserSpeechEnded):
            if not self._is_local:
                self._model.user_is(silent=True)
        elif isinstance(event, ev.RecogniserJudgement) and not self._is_local:
            return  # the server decides, not the recogniser
        elif isinstance(event, ev.UserFinal):
            self._turn_audio.words_came()
        self._emit(event)

    def _on_model_event(self, event: rt.RealtimeEvent) -> None:
        take = _TAKES.get(type(event))
        if take is not None:
            take(self, event)

    def _on_speech(self, event: rt.RealtimeSpeechStarted | rt.RealtimeSpeechEnded) -> None:
        if self._ears.has_vad:  # the pipeline's own VAD reports the same, sooner
            return
        at = self._clock.now() - event.ago - self._ears.delay
        is_start = isinstance(event, rt.RealtimeSpeechStarted)
        self._model.user_is(silent=not is_start)
        self._emit(ev.UserSpeechStarted(at) if is_start else ev.UserSpeechEnded(at))

    def _on_transcript(self, event: rt.RealtimeTranscript) -> None:
        if event.role == "assistant":
            if event.is_final:
                self._emit(ev.AgentTranscript(item_id=event.item_id, text=event.text))
        elif self._pipeline.components.stt is None:
            kind = ev.UserFinal if event.is_final else ev.UserInterim
            self._emit(kind(text=event.text, item_id=event.item_id))

    def _on_reply(self, event: rt.RealtimeReplyStarted) -> None:
        if self._is_local:
            self.refuse(event.reply_id)
        else:
            self._model.user_is(silent=True)
            self._conversation.reply_began(event.reply_id, event.item_id)
            self._emit(ev.RemoteReplyStarted(event.reply_id, event.item_id))

    def _on_turn_ended(self, event: rt.RealtimeTurnEnded) -> None:
        if not self._is_local:
            self._model.user_is(silent=True)
            self._emit(ev.UserTurnEnded(event.item_id))

    def _on_committed(self, event: rt.RealtimeInputCommitted) -> None:
        if self._pipeline.components.stt is None:
            self._emit(ev.UserAudioCommitted(event.item_id))

    def _on_cancelled(self, event: rt.RealtimeReplyCancelled) -> None:
        self._emit(ev.RemoteReplyCancelled(event.reply_id))

    def _on_problem(self, event: rt.RealtimeProblem) -> None:
        self._emit(ev.PipelineFailed(event.error, True, "realtime_model"))

    def _on_failure(self, error: ProviderError, recovered: bool) -> None:
        unheard: list[AudioFrame] = []
        if not recovered and self._pipeline.components.stt is None:
            to_caller = Resampler(self._can.input_rate, self._input_rate)
            unheard = [to_caller.push(frame) for frame in self._model.take_unheard()]
        self._emit(ev.PipelineFailed(error, recovered, "realtime_model", tuple(f for f in unheard if f.data)))

    def _on_usage(self, event: Usage) -> None:
        self._emit(ev.PipelineUsage(**asdict(event)))


_TAKES: dict[type, Callable[[RealtimePipelineConnection, Any], None]] = {
    rt.RealtimeSpeechStarted: RealtimePipelineConnection._on_speech,
    rt.RealtimeSpeechEnded: RealtimePipelineConnection._on_speech,
    rt.RealtimeTranscript: RealtimePipelineConnection._on_transcript,
    rt.RealtimeReplyStarted: RealtimePipelineConnection._on_reply,
    rt.RealtimeTurnEnded: RealtimePipelineConnection._on_turn_ended,
    rt.RealtimeInputCommitted: RealtimePipelineConnection._on_committed,
    rt.RealtimeReplyCancelled: RealtimePipelineConnection._on_cancelled,
    rt.RealtimeProblem: RealtimePipelineConnection._on_problem,
    Usage: RealtimePipelineConnection._on_usage,
}


def _is_answer(item: LLMEvent | AudioChunk) -> bool:
    return not isinstance(item, Usage)


def _setup_of(pipeline: RealtimePipeline) -> tuple[object, ...]:
    return pipeline.model, pipeline.answers, pipeline.turn_detection, pipeline.components.stt is None
