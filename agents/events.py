"""The events of a session: frozen classes, each with a name to listen to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vivavoce.agents.records import CloseReport, ComponentRecord, GraphEvent, ReceivedFile, TurnRecord
from vivavoce.agents.session_event import SessionEvent as SessionEvent
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.telephone_events import CallAnsweredBy as CallAnsweredBy
from vivavoce.agents.telephone_events import CallProgress as CallProgress
from vivavoce.agents.telephone_events import EgressChanged as EgressChanged
from vivavoce.agents.telephone_events import HoldChanged as HoldChanged
from vivavoce.agents.telephone_events import KeyPressed as KeyPressed
from vivavoce.agents.telephone_events import KeysEntered as KeysEntered
from vivavoce.pipelines.core.lazy import lazy_names
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.recognised import STTWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(SessionEvent):
    """`start()` is complete."""

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
    """Agent `old` has handed the conversation over, and `agent` is about to enter. Both are ids."""

    name: ClassVar[str] = "agent_changed"
    old: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphMoved(SessionEvent):
    """The conversation graph is in another state, or again in the same one.

    Args:
        old: The state before; empty at the beginning.
        state: The state now.
        reason: The `begin` of the graph, a `transition`, the `return` from a global state, a `request` by
            `session.graph.move()`, or `undo`: the caller went on speaking, and the turn is judged anew.
        transition: The transition, such as `"'greeting', when_intent_matched('book') → 'day'"`; empty for the others.
    """

    name: ClassVar[str] = "graph_moved"
    old: str
    state: str
    reason: Literal["begin", "transition", "return", "request", "undo"]
    transition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEventPosted(SessionEvent):
    """An extension has posted `event` for the conversation graph, if the session follows one."""

    name: ClassVar[str] = "graph_event_posted"
    event: GraphEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineChanged(SessionEvent):
    """The session changed its pipeline; `session.pipeline` is the new one.

    Args:
        old: Name of the pipeline before.
        pipeline: Name of the new one.
        components: The parts of the new one.
    """

    name: ClassVar[str] = "pipeline_changed"
    old: str
    pipeline: str
    components: tuple[ComponentRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTranscript(SessionEvent):
    """The user's words; an interim is replaced by the next one.

    Args:
        text: The words of this transcript alone; a turn may have several finals.
        is_final: Whether the recogniser will not change them any more.
        words: Its words, with seconds from the session's start; empty if the recogniser has no times.
        speaker: The recogniser's name for the one voice that said them; empty if `words` have several, or none.
        language: The language of most of the words; empty if unknown.
        languages: All their languages, that one first.
        confidence: 0 … 1; None if unknown.
    """

    name: ClassVar[str] = "user_transcript"
    text: str = field(repr=False)
    is_final: bool
    words: tuple[STTWord, ...] = field(default=(), repr=False)
    speaker: str = ""
    language: str = ""
    languages: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptMissing(SessionEvent):
    """The user spoke and no words came in time: the turn is dropped."""

    name: ClassVar[str] = "transcript_missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurnLimitReached(SessionEvent):
    """A limit ended the user's turn of `words` words and `seconds` seconds, although the user may still be talking.

    Args:
        limit: The option of `EndpointingOptions` that was reached.
    """

    name: ClassVar[str] = "user_turn_limit_reached"
    limit: Literal["max_turn_words", "max_turn_duration"]
    words: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechCreated(SessionEvent):
    """A speech was requested.

    Args:
        speech_id: The id of its `SpeechHandle`.
        kind: "say", "reply", or "turn" for the answer to a turn of the user.
    """

    name: ClassVar[str] = "speech_created"
    speech_id: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseInterruption(SessionEvent):
    """Sounds without words paused the agent, and it continues.

    Args:
        speech_id: The speech that continues.
    """

    name: ClassVar[str] = "false_interruption"
    speech_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleted(SessionEvent):
    """A turn has its outcome.

    Args:
        record: Its outcome, stages and interruptions, and its words with `capture_content`.
    """

    name: ClassVar[str] = "turn_completed"
    record: TurnRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(SessionEvent):
    """A tool call begins; `ToolCalled` follows when it is complete.

    Args:
        tool: The tool's name.
        call_id: The model's id of the call.
        arguments: As JSON, in the model's words.
    """

    name: ClassVar[str] = "tool_started"
    tool: str
    call_id: str
    arguments: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(SessionEvent):
    """A tool call is complete. One that returned an agent is complete with its step, which takes one agent at most.

    Args:
        tool: The tool's name.
        call_id: The model's id of the call.
        arguments: As JSON, in the model's words.
        output: Given to the model.
        is_error: Whether the call failed; `output` then describes the failure.
        seconds: How long it ran.
    """

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
class FormSubmitted(SessionEvent):
    """The caller has submitted a form that `session.memory.post()` had sent.

    Args:
        part_id: The id that `post()` returned.
        form: The object of the form's model, made from the caller's values, which it has accepted.
    """

    name: ClassVar[str] = "form_submitted"
    part_id: str
    form: Any = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReceived(SessionEvent):
    """The caller has sent a file. Files are taken only while there is a handler for this event.

    Args:
        file: Its bytes, and its name and type, which the caller has chosen.
    """

    name: ClassVar[str] = "file_received"
    file: ReceivedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRefused(SessionEvent):
    """The caller wanted to send a file and it was not taken.

    Args:
        file_name: Its name.
        media_type: Its type.
        reason: `not_wanted` (there is no handler for `file_received`, or `RoomOptions.file_input` is off), `too_large`,
            `too_many` or `wrong_type` (by `FileInputOptions`), or `incomplete`.
    """

    name: ClassVar[str] = "file_refused"
    file_name: str = field(repr=False)
    media_type: str
    reason: Literal["not_wanted", "too_large", "too_many", "wrong_type", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItemAdded(SessionEvent):
    """The history has a new item.

    Args:
        item: A message, tool call, its output, handoff or change of configuration.
    """

    name: ClassVar[str] = "history_item_added"
    item: ChatItem


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItemReplaced(SessionEvent):
    """An item of the history has new content under its old id.

    Args:
        item: A message, tool call, its output, handoff or change of configuration.
    """

    name: ClassVar[str] = "history_item_replaced"
    item: ChatItem


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryItemRemoved(SessionEvent):
    """An item was removed from the history: a hook dropped its turn, or the application removed it.

    Args:
        item: Its last content.
    """

    name: ClassVar[str] = "history_item_removed"
    item: ChatItem


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReplaced(SessionEvent):
    """A new connection of a realtime model replaced the old one, and received the conversation.

    Args:
        component: The part that owns it: "realtime_model".
        gap: Seconds in which no connection heard the caller, whose audio waited for the new one: from the end of the
            old one, or the moment when its loss was noticed, until the new one took audio.
        reason: It had reached its `limit`, was `lost` (an `error` event has the cause), or could not take new
            instructions or tools (`update`).
    """

    name: ClassVar[str] = "connection_replaced"
    component: str
    gap: float
    reason: Literal["limit", "lost", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarning(SessionEvent):
    """A limit of the budget is near: `BudgetOptions.warn_at`. Once, until the use has fallen or the limit has changed.

    Args:
        kind: The limit.
        use: The cost, in the unit of the prices; the mean score; or the median latency in seconds.
        allocation: The limit's amount.
    """

    name: ClassVar[str] = "budget_warning"
    kind: Literal["cost", "accuracy", "latency"]
    use: float
    allocation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded(SessionEvent):
    """A limit of the budget is reached; the functions of `BudgetOptions.degrade` run next.

    Args:
        kind: The limit.
        use: The cost, in the unit of the prices; the mean score; or the median latency in seconds.
        allocation: The limit's amount.
    """

    name: ClassVar[str] = "budget_exceeded"
    kind: Literal["cost", "accuracy", "latency"]
    use: float
    allocation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueExpired(SessionEvent):
    """A conversation of a dialogue was removed: it was without a message for too long, or was one too many.

    Either agent may have removed it; both get the event.

    Args:
        dialogue: Name of the dialogue.
        session_id: Id of the conversation.
        peer: Id of the agent that it was with.
        state: Name of the node where it was.
        is_finished: Whether no message could follow.
    """

    name: ClassVar[str] = "dialogue_expired"
    dialogue: str
    session_id: str
    peer: str
    state: str
    is_finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalMissed(SessionEvent):
    """A search for the caller's turn, or for the tool `search_knowledge`, gave nothing in time: it was late or failed.
    The turn goes on without passages.

    Args:
        error: What failed; None: the search took longer than `KnowledgeOptions.deadline`.
    """

    name: ClassVar[str] = "retrieval_missed"
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeUnanswered(SessionEvent):
    """No passage of the knowledge base fits the question well enough (`KnowledgeOptions.min_score`).

    Args:
        question: The caller's words, or those that the model searched for.
        best_score: Of the passage that fits best; None if no passage has a word of it.
    """

    name: ClassVar[str] = "knowledge_unanswered"
    question: str = field(repr=False)
    best_score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorOccurred(SessionEvent):
    """A part of the session failed.

    Args:
        error: The exception; a `ProviderError` if a provider failed, an `UnvoicedError` if a voice gave no audio for
            its `text`. The classes are in `vivavoce.pipelines.core.errors`.
        source: The part: a component ("llm", "tts", "stt", "vad", "denoise", "turn_detector", "realtime_model"), "text"
            (given to `say`), "tool", "handler", "hook", "policy", "room" (its transport gave no text where text is
            needed), "avatar" (it is missing or lost), "turn" (a rule of the turn machine is at fault), "memory" (its
            store), "checkpoint" (the store of `CrashSafety`), "budget" (its functions and prices), "graph" (its code),
            "dialogues" (their handlers and channel), "peers" (the handlers), the key of an extension …
        is_recovered: Whether the session continues without any loss.
        successor: Provider and model of the component that took the place of the one that failed, for the members of
            a fallback; `error.provider` is the one that failed. Empty elsewhere.
    """

    name: ClassVar[str] = "error"
    error: Exception
    source: str
    is_recovered: bool = False
    successor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(SessionEvent):
    """The session is over; nothing follows.

    Args:
        report: The reason, and the steps of the close with their times and errors.
    """

    name: ClassVar[str] = "closed"
    report: CloseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechIn(SessionEvent):
    """20 ms of the caller, as the pipeline receives them. Not queued: handlers run on the audio path and must not
    block.

    Args:
        frame: Mono PCM.
    """

    name: ClassVar[str] = "on_speech_in"
    frame: AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOut(SessionEvent):
    """A frame written to the room. Not queued: handlers run on the audio path and must not block.

    Args:
        frame: Mono PCM.
    """

    name: ClassVar[str] = "on_speech_out"
    frame: AudioFrame


EVENT_TYPES: tuple[type[SessionEvent], ...] = tuple(
    kind
    for _, kind in sorted(globals().items())
    if isinstance(kind, type) and issubclass(kind, SessionEvent) and kind is not SessionEvent
)
"""All events, by the names of their classes."""

if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, {}, moved={"DialogueMoved": f"{__name__}.DialogueMoved is GraphMoved now"})
