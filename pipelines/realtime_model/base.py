"""RealtimeModel and RealtimeConnection: speech in, speech out, one remote conversation.

The contract of a provider:

* All methods of a connection but `open()`, `aclose()` and the streams are synchronous: they enqueue a message and
  return. Messages go out in the order of the calls.
* The remote conversation is the server's copy of the session's history. Items get into it in four ways: by
  `RealtimeSetup.history` (once, at opening), as the user's audio (`push` and `commit()` or the server's own turn
  detection), as answers that the model makes, and by `append()`. The pipeline sees to it that nothing gets there twice.
* At most one answer is streamed at a time. Closing an answer's stream before `Done` cancels it on the server; late
  messages of a cancelled answer are dropped by the connection.
* A call that an answer's stream has yielded gets exactly one output, by `append()`. A call that no stream yields, since
  its answer was refused, closed before or has failed, is the connection's own matter: it removes the call from the
  remote conversation, or gives it the output `NOT_RUN`.
* Ids of items are the provider's. The connection makes an id for an item that has none there.
* No exception of a connection ends the call. The connection is lost if a synchronous method raises, if `events()`
  raises anything but a ProviderError, or if an event is of another kind: the pipeline opens another one, with the
  history. An answer whose stream raises anything but a ProviderError fails its turn, and is not requested again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model.events import (
    RealtimeEnding,
    RealtimeEvent,
    RealtimeInputCommitted,
    RealtimeProblem,
    RealtimeReplyCancelled,
    RealtimeReplyStarted,
    RealtimeResumable,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
    RealtimeTurnEnded,
)
from vivavoce.pipelines.tts.base import AudioChunk

__all__ = [
    "RealtimeCapabilities",
    "RealtimeConnection",
    "RealtimeEnding",
    "RealtimeEvent",
    "RealtimeInputCommitted",
    "RealtimeModel",
    "RealtimeProblem",
    "RealtimeReplyCancelled",
    "RealtimeReplyStarted",
    "RealtimeResumable",
    "RealtimeSetup",
    "RealtimeSpeechEnded",
    "RealtimeSpeechStarted",
    "RealtimeTranscript",
    "RealtimeTurnEnded",
    "TurnDetection",
]

NOT_RUN = "Not run: the answer that made the call was cut, refused, or has failed."
"""The output that a connection gives to a call that it yields to nobody."""

TurnDetection = Literal["local", "remote"]
"""The side that judges that the user's turn is over: the session, which calls `commit()`, or the model's server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeCapabilities:
    """The abilities of a realtime model; read before connecting.

    Args:
        input_rate, output_rate: Hz of the audio in and out. Frames are mono 16-bit PCM; other encodings on the wire are
            the connection's own matter.
        turn_detection: The ways in which turns may be ended; `RealtimeSetup.turn_detection` names the one in use.
        starts_replies: Whether, with remote turn detection, the server answers on its own (`RealtimeReplyStarted`);
            else it reports `RealtimeTurnEnded` and waits for `generate()`.
        generates_audio: Whether it can answer with speech.
        generates_text: Whether it can answer with text alone, for a TTS.
        says_verbatim: Whether `say()` speaks given text word for word; else the model is only asked to.
        truncates: Whether `truncate()` changes the remote conversation.
        deletes: Whether `delete()` takes items out of it.
        sends_transcripts: Whether it transcribes the user, if `RealtimeSetup.transcribe` is set.
        supports_tools: Whether it calls tools.
        answers_results: Whether the server begins to answer by the output of a call. The connection then keeps outputs
            until an answer is requested, or, if it `waits_for_outputs`, sends them for one that has not begun.
        supports_images: Whether `append()` takes messages with pictures.
        takes_video: Whether `push_video()` has an effect.
        updates: Whether `update()` changes instructions and tools of an open connection; else the pipeline opens a new
            one, with the history.
        max_seconds: Seconds after which the server ends a connection; None if it announces the end, or never ends one.
    """

    input_rate: int = 24000
    output_rate: int = 24000
    turn_detection: frozenset[TurnDetection] = frozenset({"local", "remote"})
    starts_replies: bool = True
    generates_audio: bool = True
    generates_text: bool = False
    says_verbatim: bool = False
    truncates: bool = True
    deletes: bool = False
    sends_transcripts: bool = True
    supports_tools: bool = True
    answers_results: bool = False
    supports_images: bool = False
    takes_video: bool = False
    updates: bool = True
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if not self.turn_detection:
            raise ValueError("turn_detection must hold 'local', 'remote' or both, got none")
        if not (self.generates_audio or self.generates_text):
            raise ValueError("a realtime model must generate audio, text or both, got neither")
        if self.max_seconds is not None and self.max_seconds <= 0:
            raise ValueError(f"need max_seconds > 0 s, got {self.max_seconds!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeSetup:
    """The settings of a connection; all of them are in force when `open()` returns.

    Args:
        instructions, tools: The agent's.
        turn_detection: Who ends turns. With `local` the server must neither commit nor answer on its own.
        answers: Whether answers are speech with its transcript (`audio`), or `text` alone.
        transcribe: Whether the user's words are wanted; False if the pipeline has an STT.
        history: The conversation so far, sent before anything else: at the session's start it is empty or a resumed
            session's, later that of a lost connection. Calls in it have their outputs. It is ignored if `resume`
            restores the conversation.
        resume: The newest `RealtimeResumable.handle`; empty for a new conversation.
    """

    instructions: str = field(default="", repr=False)
    tools: tuple[Tool[..., object], ...] = ()
    turn_detection: TurnDetection = "remote"
    answers: Literal["audio", "text"] = "audio"
    transcribe: bool = True
    history: ChatContext = field(default_factory=ChatContext, repr=False)
    resume: str = field(default="", repr=False)


class RealtimeConnection(ABC):
    """One session with a realtime model."""

    # --- the user

    @abstractmethod
    def push(self, frame: AudioFrame) -> None:
        """Take one mono frame at the capability's `input_rate`. Must not block; audio that cannot be sent is
        dropped."""

    def commit(self) -> None:
        """The user's turn is over (local turn detection): the audio pushed since the last `commit()` or `clear()` is an
        item of the conversation, reported by `RealtimeInputCommitted`. It asks for no answer."""

    def clear(self) -> None:
        """Forget the user's audio since the last commit."""

    def push_video(self, frame: VideoFrame) -> None:
        """Show the model a current picture. Only with the capability `takes_video`."""

    @abstractmethod
    def events(self) -> AsyncIterator[RealtimeEvent]:
        """Yield the server's events until the connection is closed. Iterated once.

        Raises:
            ProviderError: The connection is lost; after a retryable one, such as the end of the connection's time, the
                pipeline opens a new connection.
        """

    # --- answers

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Ask for one answer to the present remote conversation, and stream it.

        Yields `TextDelta` (with audio: its transcript, each piece as early as possible) and `AudioChunk`, both with the
        `item_id` of their item; whole `ToolCall`s, before or behind words; `Usage`; one `Done` last, behind the last
        piece of transcript. After tool calls the pipeline appends their outputs and asks again.

        Args:
            request: `extra_instructions` are for this answer only and add to the standing ones; `tools` and
                `tool_choice` limit the calls of this answer. `context` is the whole history and need not be sent: the
                items that the server lacks were appended before.
        Raises:
            ProviderError: While iterating: the answer failed, or the connection was lost.
        """

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream, as `generate()` does, of an answer that the server began.

        Pieces that came before are yielded first.

        Raises:
            KeyError: There is no such answer: it was never begun, refused, or accepted already.
        """
        raise KeyError(f"no remote answer {reply_id!r}")

    def refuse(self, reply_id: str) -> None:
        """Cancel an answer that the server began, and remove its items from the remote conversation, if possible.
        Unknown ids are fine."""

    def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak text: word for word with `says_verbatim`, else by a request marked as such ("say exactly this …").

        An answer that is part of the remote conversation yields chunks with an `item_id`; without one the pipeline
        appends the heard text. Only for a model that generates audio.

        Raises:
            ProviderError: While iterating.
        """
        raise CapabilityError("realtime model", "say", "give the RealtimePipeline a tts")

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Cut an answer in the remote conversation to the part that the user heard. Only with the capability
        `truncates`.

        It may come while the answer is streamed: its stream is closed right after, and the server must receive the
        cancellation before the truncation.

        Args:
            played_seconds: Seconds of this item's audio, never more than came; 0: nothing was heard, so remove the
                item.
            heard_text: The heard part of this item; a text answer is cut to it.
        """

    # --- the conversation

    @property
    def waits_for_outputs(self) -> bool:
        """Whether the server answers nothing while a call has no output. Read with the capability `answers_results`."""
        return False

    def append(self, item: ChatItem) -> None:
        """Add an item at the end of the remote conversation, without asking for an answer: typed words, words spoken in
        another voice, the output of a tool call. Items that no model is sent (`AgentHandoff` …) do not come."""

    def delete(self, item_id: str) -> None:
        """Remove an item from the remote conversation. Only with the capability `deletes`.

        Args:
            item_id: The id of `RealtimeInputCommitted`, or the `ChatItem.id` of an item of `append()`. Unknown ones are
                fine.
        """

    def calls_not_run(self, call_ids: Collection[str], *, is_asked: bool) -> None:
        """These calls, whose outputs were appended, are not run. Only with the capability `answers_results`.

        Args:
            is_asked: Whether an answer is requested for those outputs; else a server that decides turns is sent the
                ones that the connection still keeps, and no answer by them is wanted. It may become False later.
        """

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """Change standing instructions and tools, for every answer requested from now on. Only with `updates`."""

    @abstractmethod
    async def aclose(self) -> None:
        """End the connection, its events and its streams. Calling it twice is fine."""


class RealtimeModel(Component, ABC):
    """A speech-to-speech model: holds model name and options, may be shared by sessions."""

    @property
    @abstractmethod
    def capabilities(self) -> RealtimeCapabilities:
        """Read before connecting."""

    @abstractmethod
    async def open(self, setup: RealtimeSetup) -> RealtimeConnection:
        """Connect and return a conversation that is ready for audio.

        Raises:
            ProviderError: It cannot connect.
        """
