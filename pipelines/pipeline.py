"""Pipeline and PipelineConnection: the contract between a session and the code that understands and makes speech.

A pipeline is a description; `open()` makes the connection of one session. Two choices save a task switch for every
event. Events go to `PipelineContext.emit`, which only enqueues; no task iterates over them. A connection runs inside
one task that the session owns (`run`), and has no task group across two calls.
"""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.events import (
    PipelineEvent,
    PipelineFailed,
    RemoteReplyStarted,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
    UserTurnEnded,
    UserTurnEndedEagerly,
    UserTurnPredicted,
    UserTurnResumed,
)
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.remote_conversation import RemoteConversation
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.speech import ComponentSet, Parts, given
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.text_filters import TextFilter, are_prepared, prepare_filters

logger = logging.getLogger(__name__)

__all__ = [
    "ConnectionChange",
    "ConnectionPart",
    "Pipeline",
    "PipelineCapabilities",
    "PipelineConnection",
    "PipelineContext",
    "PipelineEvent",
    "PipelineFailed",
    "RemoteConversation",
    "RemoteReplyStarted",
    "UserFinal",
    "UserInterim",
    "UserSpeechEnded",
    "UserSpeechStarted",
    "UserTurnEnded",
    "UserTurnEndedEagerly",
    "UserTurnPredicted",
    "UserTurnResumed",
    "check_free",
    "check_pipeline",
    "ears_of",
    "having",
    "is_like",
    "is_silent",
    "warn_if_deaf",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCapabilities:
    """The abilities of a pipeline, read before it is opened.

    Args:
        can_listen: Whether it understands the caller's audio.
        can_say: Whether `speak()` speaks given text word for word.
        speaks: Whether its answers are heard; otherwise they are text only.
        can_reply: Whether `generate()` makes answers.
        decides_turns: The judge of the end of a user turn: the session (`local`) or the model's server (`remote`).
        hears_audio: Whether the model hears the caller's audio itself. Transcripts may then be late or missing, and
            speech is a turn even without words.
        generates_audio: Whether `generate()` yields `AudioChunk` beside text; then `speak()` is not called for answers.
        truncates: Whether `truncate()` informs the model how much of an interrupted answer was heard.
        sends_transcripts: Whether it reports the user's transcripts.
        supports_images: Whether `generate()` takes messages with pictures.
        takes_video: Whether the model sees the pictures of `conversation.show()`.
        sees_turns: Whether each call of `generate()` gets the whole conversation, in which the user's messages may
            carry pictures of the caller's video.
        keeps_conversation: Whether its model keeps the conversation; a lost connection is opened again with the
            history.
        can_preempt: Whether `generate()` may be called before the user has stopped speaking, and closing it leaves no
            trace.
        takes_flow: Whether the text of its answers may come from a ConversationFlow.
        output_rate: Hz of the audio that it makes.
        vad_silence: Seconds by which the ends of speech are reported late.
        voice_lag: Seconds after which silence is reported, as a pause of the caller's voice or as the end of their
            speech.
        emits_interims: Whether words are reported while the caller speaks.
        turn_detector_limit: Seconds for a turn detector's verdict; None if none is asked.
        recogniser_decides: Whether the recogniser judges the ends of turns, so that pauses do not end them.
        components: Its components, as (kind, provider, model), for records.
    """

    can_listen: bool = True
    can_say: bool = True
    speaks: bool = True
    can_reply: bool = True
    decides_turns: Literal["local", "remote"] = "local"
    hears_audio: bool = False
    generates_audio: bool = False
    truncates: bool = False
    sends_transcripts: bool = True
    supports_images: bool = False
    takes_video: bool = False
    sees_turns: bool = False
    keeps_conversation: bool = False
    can_preempt: bool = False
    takes_flow: bool = True
    output_rate: int = 24000
    vad_silence: float = 0.0
    voice_lag: float = 0.0
    emits_interims: bool = True
    turn_detector_limit: float | None = None
    recogniser_decides: bool = False
    components: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineContext:
    """A session's part of a connection.

    Args:
        emit: Receives an event; synchronous, never raises, decides nothing.
        input_rate: Hz of the frames that will be pushed.
        instructions, tools: The instructions and tools of the first agent.
        history: Returns the present conversation, for a remote model that connects (again).
        open_limit: Seconds for one attempt to open a stream.
        transcript_timeout: Returns the seconds to wait for a transcript of the caller.
    """

    clock: Clock
    emit: Callable[[PipelineEvent], None]
    session_id: str = ""
    input_rate: int = 16000
    instructions: str = field(default="", repr=False)
    tools: Sequence[Tool[..., object]] = ()
    history: Callable[[], ChatContext] = ChatContext
    open_limit: float = 10.0
    transcript_timeout: Callable[[], float] = lambda: 1.0


_EARS = ("stt", "vad", "denoise", "turn_detector")
ONSET_SECONDS = 0.5
"""Seconds of audio before a change that the new components hear too."""


class ConnectionPart(Protocol):
    """A part of a connection that serves until it is cancelled or left."""

    def __call__(self, *, task_status: TaskStatus[None]) -> Awaitable[None]: ...


class ConnectionChange(ABC):
    """A change of an open connection to another pipeline, which keeps the streams of all components that stay.

    Call `open()`, run each of `parts` in a task until it is ready, then `take()`; `close()` in any case.
    """

    hears: bool = False
    """Whether a component that hears the caller changes."""
    parts: Sequence[ConnectionPart] = ()
    """The long-running parts of the new components. They end once they are left."""

    @abstractmethod
    def open(self) -> None:
        """Open the new streams that work without waiting.

        Raises:
            ProviderError: One cannot be opened.
        """

    @abstractmethod
    def take(self) -> None:
        """Use the new components from now on, and leave the old ones. Synchronous."""

    @abstractmethod
    def close(self) -> None:
        """Close the streams that are not in use: the old streams after `take()`, otherwise the new ones."""


class PipelineConnection(ABC):
    """One session's connection. All methods are called on the session's event loop."""

    is_closed = False
    """Whether `aclose()` was called."""

    @abstractmethod
    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Connect, call `task_status.started()`, and serve until cancelled.

        Raises:
            ProviderError: Before `started()`, when it cannot connect. Later failures are `PipelineFailed` events.
        """

    @abstractmethod
    def push_audio(self, frame: AudioFrame) -> None:
        """Take 20 ms of the caller, mono, at the context's `input_rate`. Must not block."""

    def audio_stopped(self) -> None:
        """Settle the audio that was pushed: the caller's audio stops for now, perhaps in mid-speech.

        The session counts the speech as ended, so no `UserSpeechEnded` is needed.
        """

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Run one model step; audio only with the capability `generates_audio`.

        Raises:
            ProviderError: While iterating.
        """

    @abstractmethod
    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text, whole or as it comes; the session passes a `LiveText`, which reports pauses in the text.

        Raises:
            ProviderError: While iterating.
        """

    def commit_audio(self) -> None:
        """End the user's turn with the audio pushed so far, perhaps in mid-speech: later audio is not part of the
        turn."""

    def clear_audio(self) -> None:
        """Forget the user's audio of the open turn."""

    def drop_audio(self) -> None:
        """Do not answer the audio of the open turn, which was dropped or was only a backchannel."""

    def predict_end_of_turn(self, text: str, agent_text: str) -> None:
        """Ask the turn detector, if any; it emits the verdict as `UserTurnPredicted`."""

    def accept(self, remote_reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer that the remote model began.

        Raises:
            KeyError: There is no such answer.
            ProviderConnectionError: Its connection is lost.
        """
        raise KeyError(f"no remote answer {remote_reply_id!r}")

    def refuse(self, remote_reply_id: str) -> None:
        """Cancel an answer that the remote model began."""

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Inform the model how much of its answer was heard."""

    @property
    def conversation(self) -> RemoteConversation:
        """The remote model's copy of the history."""
        return RemoteConversation()

    def update(
        self, instructions: str, tools: Sequence[Tool[..., object]], *, is_history_changed: bool = False
    ) -> None:
        """Take a change of the agent, its instructions or its tools.

        Args:
            is_history_changed: Whether earlier items were changed, so that a remote conversation has to start again.
        """

    def change(self, pipeline: Pipeline, on_failure: Callable[[Exception], None]) -> ConnectionChange | None:
        """Return the change of this connection to `pipeline`, which `having()` made; None if that needs a connection of
        its own.

        Args:
            on_failure: Called if a new component is lost for good before `take()`.
        """
        return None

    async def aclose(self) -> None:
        """Free the resources that `run()` leaves behind; called after it has ended."""


_NATIVE = ("numpy", "soxr")
"""The native modules that a turn may use: for fades and gains, and for other sample rates."""


class Pipeline(ABC):
    """A description of how a session listens, thinks and speaks."""

    name: str = "pipeline"
    fallback: Pipeline | None = None
    """The pipeline that takes over if this one cannot be opened, or is lost for good."""
    text_filters: Sequence[TextFilter] = ()
    """The filters of its own TTS, in order."""

    @property
    @abstractmethod
    def capabilities(self) -> PipelineCapabilities:
        """Read before opening."""

    def parts(self) -> Parts:
        """Yield kind and component of each part that is a component."""
        return iter(())

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare()` has nothing left to do; a start calls it in no thread then.

        False for a subclass with its own `prepare()`, unless it overrides this property too.
        """
        return (
            type(self).prepare is Pipeline.prepare
            and all(module in sys.modules for module in ("tenacity", *_NATIVE))
            and are_prepared(self.text_filters)
            and (self.fallback is None or self.fallback.is_prepared)
        )

    def prepare(self) -> None:
        """Import and build the parts that turns will use, so that no turn waits for them; called in a thread, at the
        start.

        It may be called again, which is cheap. A subclass that loads more calls this method too: it loads the parts of
        any turn, of the text filters and of the fallback.
        """
        import tenacity  # noqa: F401 - a provider's first failure

        from vivavoce.pipelines.core import native_threads

        for module in _NATIVE:
            native_threads.load(module)
        prepare_filters(self.text_filters)
        if self.fallback is not None:
            self.fallback.prepare()

    def _composed(self, components: ComponentSet) -> Pipeline:
        """Return a pipeline like this one, with these components in place of its own; see `having`."""
        remedy = "use update_pipeline() with another pipeline"
        raise CapabilityError(self.name, "a change of single components", remedy)

    def _is_like(self, other: Pipeline) -> bool:
        """Return whether `other` has the same components and options."""
        return other is self

    @abstractmethod
    def open(self, context: PipelineContext) -> PipelineConnection:
        """Return the connection of one session; it connects in its `run()`.

        Raises:
            ConfigurationError: The pipeline is attached to a session already.
        """


# Functions, and no methods: completion shows applications what they may call. A pipeline of your own implements
# `_composed` and `_is_like` if sessions may change its components, and calls `check_free` in its `open()`.


def having(pipeline: Pipeline, components: ComponentSet) -> Pipeline:
    """Return a pipeline like the given one with these components in place of its own; the given one itself without any.

    Raises:
        CapabilityError: The pipeline cannot use one of them, or they do not fit together.
    """
    return pipeline._composed(components) if any(given(components)) else pipeline


def ears_of(pipeline: Pipeline) -> ComponentSet:
    """Return the components of a pipeline that hear the caller; a realtime model does not count."""
    ears: dict[str, Any] = {kind: part for kind, part in pipeline.parts() if kind in _EARS}
    return ComponentSet(**ears)


def is_like(pipeline: Pipeline, other: Pipeline) -> bool:
    """Return whether two pipelines have the same components and options."""
    return pipeline._is_like(other)


def check_free(pipeline: Pipeline, connection: PipelineConnection | None) -> None:
    """Refuse to open a second connection of a pipeline.

    Args:
        connection: The one opened before, if any.
    Raises:
        ConfigurationError: It is not closed.
    """
    if connection is not None and not connection.is_closed:
        kind = type(pipeline).__name__
        raise ConfigurationError(
            f"needed a pipeline that no session holds, got one that is attached already; make a {kind} for each "
            "session (its components may be shared)"
        )


def check_pipeline(pipeline: Pipeline) -> None:
    """Refuse a pipeline that can never work, its fallbacks included.

    Raises:
        ConfigurationError: It is not a pipeline.
        CapabilityError: It can neither speak nor answer.
    """
    if not isinstance(pipeline, Pipeline):
        raise ConfigurationError(
            f"pipeline must be a Pipeline, got {shown(pipeline)}; for example CascadingPipeline(...)"
        )
    capabilities = pipeline.capabilities
    if not (capabilities.can_say or capabilities.can_reply):
        raise CapabilityError(pipeline.name, "can_say", "give the pipeline a tts, or a model that speaks")
    if pipeline.fallback is not None:
        check_pipeline(pipeline.fallback)


def is_silent(pipeline: Pipeline) -> bool:
    """Return whether a session with that pipeline neither hears nor speaks."""
    return not (pipeline.capabilities.can_listen or pipeline.capabilities.speaks)


def warn_if_deaf(pipeline: Pipeline) -> None:
    """Log that callers cannot be heard by a pipeline, or by a fallback of it, that is about to be used.

    A pipeline that neither hears nor speaks is for text only, and is not logged.
    """
    capabilities = pipeline.capabilities
    if capabilities.can_reply and not capabilities.can_listen and not is_silent(pipeline):
        logger.warning("The pipeline answers but hears nothing; give it an stt, if callers are to speak")
    if pipeline.fallback is not None:
        warn_if_deaf(pipeline.fallback)
