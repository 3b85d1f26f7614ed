"""RealtimePipeline: one speech-to-speech model, with a voice of one's own for `say` and a local VAD if given.

Only what a realtime model needs to hold a conversation is here; transcribing beside the model and turn detectors come
with their own issue.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    ProviderConnectionError,
)
from vivavoce.pipelines.core.reconnect import ReconnectingStream
from vivavoce.pipelines.core.retry import RetryOptions, retry_stream
from vivavoce.pipelines.events import (
    PipelineFailed,
    RemoteReplyStarted,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
)
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, Usage
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.pipeline import Pipeline, PipelineCapabilities, PipelineConnection, PipelineContext
from vivavoce.pipelines.realtime_model.base import (
    RealtimeConnection,
    RealtimeEvent,
    RealtimeModel,
    RealtimeReplyStarted,
    RealtimeSetup,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
    TurnDetection,
)
from vivavoce.pipelines.tts.base import TTS, AudioChunk
from vivavoce.pipelines.tts.sentences import SentenceOptions
from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS, TextFilter, checked_filters
from vivavoce.pipelines.tts.voice import Voice, VoiceOptions
from vivavoce.pipelines.vad.base import VAD, VADSpeechStarted, VADStream


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeOptions:
    """How a realtime pipeline speaks with a voice of one's own, and deals with what fails."""

    reconnect: RetryOptions = field(default_factory=lambda: RetryOptions(waits=(0.5, 0.5)))
    """Tries of connecting."""
    reply_retry: RetryOptions = field(default_factory=RetryOptions)
    """Tries of an answer, until its first word, audio or tool call."""
    tts_retry: RetryOptions = field(default_factory=RetryOptions)
    """Tries of a synthesis with one's own voice, until its first audio."""
    text_filters: tuple[TextFilter, ...] = DEFAULT_TEXT_FILTERS
    """What one's own voice says for what is written, in order (`pipelines.tts.text_filters`); `()` for none."""
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    """Where text is cut for a voice of one's own that takes sentences."""
    turn_detection: TurnDetection | None = None
    """Who ends the user's turns. None: the session (`local`) where there is a vad, else the model's server (`remote`).
    With `remote` a vad only tells, sooner than the server, that the user speaks."""
    answers: Literal["audio", "text"] | None = None
    """Whether the model answers with speech or with text for a tts. None: speech, if it can."""

    def __post_init__(self) -> None:
        checked_filters(self.text_filters)


class RealtimePipeline(Pipeline):
    """Listens, thinks and speaks with one model.

    Args:
        model: Shared; only connections opened here are closed here.
        tts: Speaks `say`, and the answers of a model that makes text only.
        vad: Tells when the user speaks, in place of the model's server.
    Raises:
        ConfigurationError: Something is not what its name says.
        CapabilityError: The model makes no audio and there is no tts, or it wants to be told of turns and there is no
            vad.
    """

    name = "realtime"

    def __init__(
        self,
        model: RealtimeModel,
        *,
        tts: TTS | None = None,
        vad: VAD | None = None,
        options: RealtimeOptions | None = None,
    ) -> None:
        for name, part, port in (("model", model, RealtimeModel), ("tts", tts, TTS), ("vad", vad, VAD)):
            if not isinstance(part, port) and (part is not None or name == "model"):
                raise ConfigurationError(f"{name} must be an instance of {port.__name__}, got {part!r}")
        self.model = model
        self.tts = tts
        self.vad = vad
        self.options = options or RealtimeOptions()
        can = model.capabilities
        self.answers = self.options.answers or ("audio" if can.generates_audio else "text")
        """Whether the model answers with speech or with text."""
        self.turn_detection: TurnDetection = self.options.turn_detection or ("local" if vad is not None else "remote")
        """Who ends the user's turns."""
        if self.answers == "text" and tts is None:
            raise CapabilityError(model.provider, "generates_audio", "give RealtimePipeline a tts")
        if not (can.generates_audio if self.answers == "audio" else can.generates_text):
            raise CapabilityError(model.provider, f"answers of {self.answers}", "leave out RealtimeOptions.answers")
        if self.turn_detection == "local" and vad is None:
            raise CapabilityError("realtime", "local turn detection", "give RealtimePipeline a vad")
        if self.turn_detection not in can.turn_detection:
            remedy = "give RealtimePipeline a vad" if vad is None else "set RealtimeOptions.turn_detection='remote'"
            raise CapabilityError(model.provider, f"{self.turn_detection} turn detection", remedy)
        self._connection: RealtimePipelineConnection | None = None

    @property
    def capabilities(self) -> PipelineCapabilities:
        """The model's, completed by tts and vad."""
        model = self.model.capabilities
        parts = (("realtime_model", self.model), ("tts", self.tts), ("vad", self.vad))
        return PipelineCapabilities(
            can_say=True,
            decides_turns=self.turn_detection,
            generates_audio=self.answers == "audio",
            truncates=model.truncates,
            sends_transcripts=model.sends_transcripts,
            takes_flow=False,
            supports_images=model.supports_images,
            output_rate=self.output_rate,
            vad_silence=self.vad.capabilities.min_silence if self.vad else 0.0,
            components=tuple((kind, part.provider, part.model) for kind, part in parts if part is not None),
        )

    @property
    def output_rate(self) -> int:
        """Hz of what is spoken."""
        if self.answers == "audio" or self.tts is None:
            return self.model.capabilities.output_rate
        return self.tts.capabilities.sample_rate

    def open(self, context: PipelineContext) -> RealtimePipelineConnection:
        """Return the connection of one session; after its `aclose()` the pipeline may be opened again.

        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """
        if self._connection is not None and not self._connection.is_closed:
            raise ConfigurationError(
                "needed a pipeline that no session holds, got one that is attached already; make a RealtimePipeline "
                "for each session (its components may be shared)"
            )
        self._connection = RealtimePipelineConnection(self, context)
        return self._connection


class RealtimePipelineConnection(PipelineConnection):
    """One session's conversation with the model; one task, which reads the model's events."""

    def __init__(self, pipeline: RealtimePipeline, context: PipelineContext) -> None:
        self._model = pipeline.model
        self._vad_component = pipeline.vad
        self._retries = pipeline.options.reply_retry
        self._clock = context.clock
        self._emit = context.emit
        self._rate = context.input_rate
        self.is_closed = False
        self._vad: VADStream | None = None
        self._to_model = Resampler(context.input_rate, pipeline.model.capabilities.input_rate)
        self._to_vad = Resampler(context.input_rate, pipeline.vad.capabilities.sample_rate) if pipeline.vad else None
        self._output_rate = pipeline.output_rate
        self._voice: Voice | None = None
        if pipeline.tts is not None:
            options = pipeline.options
            speaking = VoiceOptions(
                retry=options.tts_retry, text_filters=options.text_filters, sentences=options.sentences
            )
            self._voice = Voice(
                pipeline.tts,
                speaking,
                context.clock,
                lambda error: context.emit(PipelineFailed(error, True, "text_filter")),
            )
        self._link = _Link(pipeline, context, self._on_model_event)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Connect and take events until cancelled."""
        if self._vad_component is not None:
            self._vad = self._vad_component.open()
        await self._link.run(task_status=task_status)

    def push_audio(self, frame: AudioFrame) -> None:
        """Take the caller's next frame; none is kept while there is no connection."""
        if self._link.connection is not None and (heard := self._to_model.push(frame)).data:
            self._link.connection.push(heard)
        if self._vad is not None and self._to_vad is not None and (heard := self._to_vad.push(frame)).data:
            for event in self._vad.push(heard):
                at = self._clock.now() - event.ago
                self._emit(UserSpeechStarted(at) if isinstance(event, VADSpeechStarted) else UserSpeechEnded(at))

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Ask for an answer, again until something of it has come."""
        return retry_stream(lambda: self._link.live().generate(request), self._retries, _is_answer)

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak with one's own voice, else have the model say it, as soon as the text is whole."""
        if self._voice is not None:
            return _at_rate(self._voice.speak(text), self._output_rate)
        return self._say(text)

    def commit_audio(self) -> None:
        """Tell the model that the turn is over."""
        if self._link.connection is not None:
            self._link.connection.commit()

    def clear_audio(self) -> None:
        """Have the model forget the open turn's audio."""
        if self._link.connection is not None:
            self._link.connection.clear()

    def accept(self, remote_reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer that the model began.

        Raises:
            KeyError: There is no such answer.
        """
        return self._link.live().accept(remote_reply_id)

    def refuse(self, remote_reply_id: str) -> None:
        """Cancel an answer that the model began."""
        if self._link.connection is not None:
            self._link.connection.refuse(remote_reply_id)

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Tell the model how much was heard, if it can take that."""
        if self._link.connection is not None and self._model.capabilities.truncates:
            self._link.connection.truncate(item_id, played_seconds, heard_text)

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """Pass on new instructions and tools, now and to every later connection."""
        self._link.update(instructions, tools)

    async def aclose(self) -> None:
        """Free the VAD; the model's connection ended with `run()`."""
        self.is_closed = True
        if self._vad is not None:
            self._vad.close()
            self._vad = None

    async def _say(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        whole = text if isinstance(text, str) else "".join([piece async for piece in text])
        async with aclosing(self._link.live().say(whole)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _on_model_event(self, event: RealtimeEvent) -> None:
        if isinstance(event, RealtimeSpeechStarted | RealtimeSpeechEnded):
            if self._vad is None:  # else the local one tells, sooner
                at = self._clock.now() - event.ago
                self._emit(UserSpeechStarted(at) if isinstance(event, RealtimeSpeechStarted) else UserSpeechEnded(at))
        elif isinstance(event, RealtimeReplyStarted):
            self._emit(RemoteReplyStarted(event.reply_id))
        elif isinstance(event, RealtimeTranscript) and event.is_final:
            self._emit(UserFinal(text=event.text, item_id=event.item_id))
        elif isinstance(event, RealtimeTranscript):
            self._emit(UserInterim(text=event.text, item_id=event.item_id))


class _Link(ReconnectingStream[RealtimeConnection, RealtimeEvent]):
    """The connection to the model, opened anew when it is lost."""

    def __init__(
        self, pipeline: RealtimePipeline, context: PipelineContext, on_event: Callable[[RealtimeEvent], None]
    ) -> None:
        super().__init__(
            pipeline.model.provider,
            clock=context.clock,
            retries=pipeline.options.reconnect,
            open_limit=context.open_limit,
            on_failure=lambda error, recovered: context.emit(PipelineFailed(error, recovered, "realtime_model")),
        )
        self._model = pipeline.model
        self._pipeline = pipeline
        self._on_event = on_event
        self._instructions = context.instructions
        self._tools = context.tools
        self.connection: RealtimeConnection | None = None

    def live(self) -> RealtimeConnection:
        """Return the connection.

        Raises:
            ProviderConnectionError: It is lost, and being opened anew.
        """
        if self.connection is None:
            raise ProviderConnectionError("not connected at the moment", provider=self._provider)
        return self.connection

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """Keep them for the next connection and tell the present one."""
        self._instructions, self._tools = instructions, tools
        if self.connection is not None:
            self.connection.update(instructions, tools)

    async def _open(self) -> RealtimeConnection:
        return await self._model.open(
            RealtimeSetup(
                instructions=self._instructions,
                tools=tuple(self._tools),
                turn_detection=self._pipeline.turn_detection,
                answers=self._pipeline.answers,
            )
        )

    def _begin(self, stream: RealtimeConnection) -> None:
        self.connection = stream

    def _take(self, event: RealtimeEvent) -> None:
        self._on_event(event)

    def _end(self) -> None:
        self.connection = None

    def _give_up(self) -> None:
        """Calls go on failing as they do between two connections."""


def _is_answer(item: LLMEvent | AudioChunk) -> bool:
    return not isinstance(item, Usage)


async def _at_rate(chunks: AsyncGenerator[AudioChunk, None], rate: int) -> AsyncGenerator[AudioChunk, None]:
    """Yield the chunks with their audio at `rate`."""
    resampler: Resampler | None = None
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.frame.sample_rate == rate:
                yield chunk
                continue
            resampler = resampler or Resampler(chunk.frame.sample_rate, rate)
            yield replace(chunk, frame=resampler.push(chunk.frame))
    if resampler is not None:
        yield AudioChunk(resampler.flush())
