"""What a session tells its listeners: frozen classes, each with a name to listen to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from vivavoce.agents.records import CloseReport, ComponentRecord, TurnRecord
from vivavoce.agents.states import AgentState, UserState
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.media.frame import AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """Base of all events.

    Args:
        at: When it truly happened, in seconds of the session's clock from the session's start.
        sequence: Grows by one with each event of a session.
        turn_id: The turn that it belongs to; empty where there is none.
    """

    name: ClassVar[str] = ""
    at: float
    sequence: int
    turn_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(SessionEvent):
    """`start()` is done."""

    name: ClassVar[str] = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStateChanged(SessionEvent):
    """The user went from `old` to `state`."""

    name: ClassVar[str] = "user_state_changed"
    old: UserState
    state: UserState


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStateChanged(SessionEvent):
    """The agent went from `old` to `state`."""

    name: ClassVar[str] = "agent_state_changed"
    old: AgentState
    state: AgentState


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChanged(SessionEvent):
    """The conversation went from one agent to another: `old` has left, `agent` is about to enter. Both are ids."""

    name: ClassVar[str] = "agent_changed"
    old: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineChanged(SessionEvent):
    """The session went from one pipeline to another, by their names; `session.pipeline` is the new one.

    Args:
        components: What the new one is made of.
    """

    name: ClassVar[str] = "pipeline_changed"
    old: str
    pipeline: str
    components: tuple[ComponentRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTranscript(SessionEvent):
    """What the user said; an interim is replaced by the next one."""

    name: ClassVar[str] = "user_transcript"
    text: str = field(repr=False)
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptMissing(SessionEvent):
    """The user spoke and no words came in time: the turn is dropped."""

    name: ClassVar[str] = "transcript_missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurnLimitReached(SessionEvent):
    """The user's turn is over, though the user may talk on: it has `words` and lasted for `seconds`."""

    name: ClassVar[str] = "user_turn_limit_reached"
    limit: Literal["max_turn_words", "max_turn_duration"]
    words: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechCreated(SessionEvent):
    """A speech was asked for, by `say`, `reply` or a user turn."""

    name: ClassVar[str] = "speech_created"
    speech_id: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseInterruption(SessionEvent):
    """The agent was paused by sounds without words and goes on."""

    name: ClassVar[str] = "false_interruption"
    speech_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleted(SessionEvent):
    """A turn has its outcome."""

    name: ClassVar[str] = "turn_completed"
    record: TurnRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(SessionEvent):
    """A tool call begins; `ToolCalled` follows when it is settled."""

    name: ClassVar[str] = "tool_started"
    tool: str
    call_id: str
    arguments: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(SessionEvent):
    """A tool call was settled."""

    name: ClassVar[str] = "tool_called"
    tool: str
    call_id: str
    arguments: str = field(repr=False)
    output: str = field(repr=False)
    is_error: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUpFired(SessionEvent):
    """The caller has been silent for long; `level` counts the wake-ups of this silence, from 1."""

    name: ClassVar[str] = "wake_up"
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItemAdded(SessionEvent):
    """The history has a new item."""

    name: ClassVar[str] = "history_item_added"
    item: ChatItem


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItemReplaced(SessionEvent):
    """An item of the history has new content under its old id."""

    name: ClassVar[str] = "history_item_replaced"
    item: ChatItem


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItemRemoved(SessionEvent):
    """An item was taken out of the history: the hook dropped its turn."""

    name: ClassVar[str] = "history_item_removed"
    item: ChatItem


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReplaced(SessionEvent):
    """A realtime model's connection gave way to a new one, which was told the conversation.

    Args:
        component: Whose: "realtime_model".
        gap: Seconds in which no connection heard the caller, whose audio waited for the new one: from when the old one
            was left, or its loss was noticed, until the new one took audio.
        reason: It had come to its `limit`, was `lost` (an `error` event tells of what), or could not take new
            instructions or tools (`update`).
    """

    name: ClassVar[str] = "connection_replaced"
    component: str
    gap: float
    reason: Literal["limit", "lost", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorOccurred(SessionEvent):
    """Something failed.

    Args:
        source: Where: a component ("llm", "tts", "stt", "vad", "denoise", "turn_detector", "realtime_model"), "text"
            (given to `say`), "tool", "handler", "hook", "policy", "room" (its transport gave no text where text is
            needed), "turn" (a rule of the turn machine is at fault) …
        is_recovered: The session goes on as if nothing had been.
    """

    name: ClassVar[str] = "error"
    error: Exception
    source: str
    is_recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(SessionEvent):
    """The session is over; nothing follows."""

    name: ClassVar[str] = "closed"
    report: CloseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechIn(SessionEvent):
    """20 ms of the caller, as the pipeline gets them. Not queued: handlers run on the audio path and must not block."""

    name: ClassVar[str] = "on_speech_in"
    frame: AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOut(SessionEvent):
    """A frame as it is written to the room. Not queued: handlers run on the audio path and must not block."""

    name: ClassVar[str] = "on_speech_out"
    frame: AudioFrame


EVENT_TYPES: tuple[type[SessionEvent], ...] = (
    AgentChanged,
    AgentStateChanged,
    Closed,
    ConnectionReplaced,
    ErrorOccurred,
    FalseInterruption,
    HistoryItemAdded,
    HistoryItemRemoved,
    HistoryItemReplaced,
    PipelineChanged,
    SpeechCreated,
    SpeechIn,
    SpeechOut,
    Started,
    ToolCalled,
    ToolStarted,
    TranscriptMissing,
    TurnCompleted,
    UserStateChanged,
    UserTranscript,
    UserTurnLimitReached,
    WakeUpFired,
)
