"""The records of a call: a TurnRecord for each turn, and the SessionReport. Version 1; later ones only add fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from vivavoce.agents.turn.effects import EndedBy
from vivavoce.agents.turn.effects import InterruptedBy as InterruptedBy
from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.old_names import old_members
from vivavoce.pipelines.stt.recognised import STTWord

REPORT_VERSION = 1

TurnOutcome = Literal["completed", "interrupted", "failed", "cancelled", "discarded"]
StageOwner = Literal["config", "provider", "network", "user_code", "runtime"]


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A piece of the silence between the user's last sound and the agent's first.

    Args:
        name: `vad_silence`, `transcript_wait`, `end_of_turn_decision`, `endpointing_wait`, `hook`, `guard` (the content
            guard), `retrieval`, `model_first_token` (with a conversation flow `flow_first_text`), `first_sentence`,
            `tts_first_byte`, `tools`, `handoff` (hooks and speech of the two agents before the answer), `queue`,
            `playout` or `unattributed` (the session's own code, and delays of its event loop before the request to a
            provider). Of a turn that a realtime model's server ended: `server_vad_silence` (until it reported the
            silence), `server_end_of_turn` (until it announced its answer), `server_first_output`, then as above.
        owner: The part that could make it shorter.
        seconds: Time on the critical path, not the provider's own duration.
    """

    name: str
    owner: StageOwner
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """One tool call of a turn.

    Args:
        arguments, output: Text as the model saw it; empty without `capture_content`.
        call_id: The id that the model gave.
        started_at: Seconds from the session's start.
        is_known: Whether there is such a tool; if not, `name` is the model's words, `_unknown` without
            `capture_content`.
    """

    name: str
    arguments: str = field(repr=False)
    output: str = field(repr=False)
    is_error: bool
    seconds: float
    call_id: str = ""
    started_at: float = 0.0
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class GraphEvent:
    """An event for the conversation graph: the name that `when_event()` compares, and data for its code."""

    name: str
    data: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not check_text("name", self.name):
            raise ConfigurationError("name must name the event, got ''")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRecord:
    """Agent `old` handed the conversation to agent `new`; both are ids.

    Args:
        seconds: From the beginning of `on_exit` to the end of `on_enter`, with their speech.
        error: The error of a failed hook, without content.
    """

    old: str
    new: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRecord:
    """The agent was held, and then continued or was cut. All times in seconds from the session's start.

    Args:
        by: The caller's voice or typed text, a call of `interrupt()`, another speech, the caller's leaving, the close.
        policy: `InterruptionOptions.mode`, `custom` if an object decides; empty if no voice was judged.
        decision: `resumed`: a false interruption; `interrupted`: the speech was cut.
        candidate_at: The true onset of the user's speech that began it; None if there was none.
        paused_at: When the playout was held, in the middle or before it began; None if it was cut at once.
        decided_at: When it was decided.
        stopped_at: When the agent was silent, its fade included; None if it was not heard before.
        heard_position: Seconds of the speech that had been heard by then.
    """

    by: InterruptedBy
    policy: Literal["pause", "immediate", "custom", ""] = ""
    decision: Literal["resumed", "interrupted"]
    candidate_at: float | None = None
    paused_at: float | None = None
    decided_at: float
    stopped_at: float | None = None
    heard_position: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecord:
    """A provider failed and was asked again, within the turn.

    Args:
        attempt: Number of the failed try, from 1.
        error: Its text, without content.
        at: Seconds from the session's start.
    """

    provider: str
    attempt: int
    error: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackRecord:
    """A component failed within the turn, and another one took its place.

    Args:
        component: `stt`, `llm`, `tts` …
        provider: Provider and model of the one that failed, such as `openai/gpt-4o`.
        successor: Those of the other one.
        error: The failure's text, without content.
        at: Seconds from the session's start.
    """

    component: str
    provider: str
    successor: str
    error: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRecord:
    """A verdict of the content guard within the turn.

    Args:
        said_by: Who said the text.
        action: What became of it; after an error the action by `ContentGuard.on_failure`.
        seconds: How long the verdict took.
        error: The failure of the guard, without content.
    """

    said_by: Literal["agent", "caller"]
    action: Literal["pass", "hold", "replace", "end"]
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRecord:
    """The cost of a configured wait for the caller in this turn.

    Args:
        option: For example `endpointing.min_delay`; `endpointing.dynamic` is a learned one.
        configured: Seconds, as set or learned; from the true end of speech.
        seconds: The part of it on the critical path.
    """

    option: str
    configured: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """The usage of providers by a session, or a turn, summed.

    Args:
        llm_input_tokens, llm_output_tokens: Of models.
        llm_cached_tokens, llm_cache_write_tokens: The parts of the input that a provider's cache had, and took in.
        llm_input_audio_tokens, llm_output_audio_tokens, llm_cached_audio_tokens: The parts of them that are audio.
        llm_estimated_tokens: The estimated part of both: of requests that were cut before the provider reported them.
        embedding_tokens: Of texts that embedders have read; estimated where one does not report them.
    """

    llm_input_tokens: int = 0
    llm_output_tokens: int = 0
    llm_cached_tokens: int = 0
    llm_cache_write_tokens: int = 0
    tts_characters: int = 0
    tts_audio_seconds: float = 0.0
    stt_audio_seconds: float = 0.0
    llm_input_audio_tokens: int = 0
    llm_output_audio_tokens: int = 0
    llm_cached_audio_tokens: int = 0
    llm_estimated_tokens: int = 0
    embedding_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMeasures:
    """Measurements of every turn; the fields are part of `TurnRecord`.

    Args:
        session_id, speech_id, agent_id: Ids of the session, of the speech that answers the turn, of the agent that had
            the conversation.
        answers_turn_id: For a `reply` that the application did not request: the turn that it answers, whose tools had
            results after it was cut, or whose pipeline was lost. Empty for every other one.
        trace_id: Of the turn's span, 32 hexadecimal digits; empty if the session was not traced.
        user_started_at, user_ended_at: The user's speech: its true onset and end. None if the user did not speak.
        committed_at: When the user's turn was over.
        first_audio_at: When the agent's first frame was played.
        speakers: The recogniser's names of the voices of the user's words; empty if it tells none apart.
        languages: The languages of the user's words, the one of most words first; empty if unknown.
        confidence: Of the user's words, 0 … 1, as the recogniser reports it; None if unknown.
        played_seconds, generated_seconds: Audio of the agent that was heard, and that was made.
        interruptions: How often the agent was held or cut.
        waits: The cost of the configured waits.
        usage: Of this turn; that of an unused preemptive answer is of the turn that discarded it, else of no turn.
    """

    session_id: str = ""
    speech_id: str = ""
    agent_id: str = ""
    answers_turn_id: str = ""
    trace_id: str = ""
    user_started_at: float | None = None
    user_ended_at: float | None = None
    committed_at: float | None = None
    first_audio_at: float | None = None
    speakers: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    confidence: float | None = None
    played_seconds: float = 0.0
    generated_seconds: float = 0.0
    interruptions: tuple[InterruptionRecord, ...] = ()
    retries: tuple[RetryRecord, ...] = ()
    fallbacks: tuple[FallbackRecord, ...] = ()
    guards: tuple[GuardRecord, ...] = ()
    waits: tuple[WaitRecord, ...] = ()
    usage: UsageRecord = UsageRecord()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord(TurnMeasures):
    """One turn: the user's words, if any, and the fate of the agent's answer.

    Every turn has exactly one record: also one that failed, was interrupted, cancelled or discarded, each `say` and
    `reply`, and a turn that the close of its session cut. Texts are empty without `SessionOptions.capture_content`.

    Args:
        user_words: The user's words as they were recognised, with seconds from the session's start; empty if the
            recogniser has no times, or the application or the guard has edited the words.
        agent_text: The generated text; `heard_text`: the part of it that the caller heard.
        e2e_latency: Seconds from the true end of the user's speech to the first frame played; None if no user turn was
            answered audibly. The `stages` sum to it.
        kind: The cause of the agent's speech.
        started_at, ended_at: Seconds from the session's start.
        error: The failure's text without content, if the outcome is `failed`.
        is_empty: Whether the model ended without words, so that the caller heard nothing although an answer was due.
        unvoiced: The sentences for which the voice yielded no audio: the caller did not hear them. One that was asked
            for again and then voiced is none.
        ended_by: The cause of the end of the user's turn; None if there was none.
        endpointing_delay: Seconds of silence that ended the turn, configured or learned, if `ended_by` is a pause or a
            timeout. The stages from `vad_silence` to `endpointing_wait` show its part on the critical path.
        preemptive: Whether the answer was begun before the turn was over.
        llm_first_token, tts_first_byte: The providers' own durations of the first step, from the request to the first
            word (or call) and to the first audio. Unlike a stage they include time in which the caller waited for
            something else. None if nothing came.
        graph_state: The state of the conversation graph that answered; empty without a graph.
        transitions: The transitions that the turn took, in order, such as
            `"'greeting', when_intent_matched('book') → 'day'"`.
    """

    turn_id: str
    kind: Literal["turn", "say", "reply"] = "turn"
    user_text: str = field(default="", repr=False)
    agent_text: str = field(default="", repr=False)
    heard_text: str = field(default="", repr=False)
    outcome: TurnOutcome
    interrupted: bool
    e2e_latency: float | None
    stages: tuple[StageRecord, ...] = ()
    tools: tuple[ToolRecord, ...] = ()
    handoffs: tuple[HandoffRecord, ...] = ()
    started_at: float = 0.0
    ended_at: float = 0.0
    error: str = ""
    is_empty: bool = False
    ended_by: EndedBy | None = None
    endpointing_delay: float | None = None
    preemptive: bool = False
    llm_first_token: float | None = None
    tts_first_byte: float | None = None
    graph_state: str = ""
    transitions: tuple[str, ...] = ()
    unvoiced: tuple[str, ...] = field(default=(), repr=False)
    user_words: tuple[STTWord, ...] = field(default=(), repr=False)

    if not TYPE_CHECKING:
        __getattr__ = old_members(dialogue_state="graph_state")

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """`who` ("user" or "agent") changed to `state` at `at` seconds from the session's start."""

    who: Literal["user", "agent"]
    state: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseStep:
    """One step of closing: its duration, and its error (empty if none)."""

    name: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseReport:
    """How a session ended.

    Args:
        lost_writes: The session's own writes that the store of its memory did not get.
    """

    reason: str
    seconds: float
    steps: tuple[CloseStep, ...] = ()
    error: str = ""
    lost_writes: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether every step ended by itself and in time."""
        return not any(step.error for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """An `error` event, without content.

    Args:
        at: Seconds from the session's start.
        source: The component, as in the event.
        is_recovered: Whether the session continued without any loss.
        times: How often it happened, for code that is called for each frame: a handler of `on_speech_in` or
            `on_speech_out`, and the agent's hooks of these names; and for a conversation graph that moves in a circle
            or drops events. The `error` event comes the first time only.
        successor: As in the event.
    """

    at: float
    source: str
    error: str
    is_recovered: bool = False
    times: int = 1
    successor: str = ""


DropReason = Literal["noise", "transcript_missing", "cleared", "backchannel", "merged", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTurnRecord:
    """A turn of the user without an answer: it has no outcome, no `TurnRecord` and no `turn_completed`.

    Args:
        turn_id: The id of its span, whose outcome is `dropped`.
        reason: No word came (`noise`, or `transcript_missing` if a transcript was due), `clear_turn()` was called, it
            was a sign of listening (`backchannel`), its words joined the turn before (`merged`), or the session closed.
        at: Seconds from the session's start; the onset of its sound, else the arrival of its first words or of the
            request to commit it.
    """

    turn_id: str
    reason: DropReason
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRecord:
    """An event beside the turns: `name` (`wake_up`, `transcript_missing` …) at `at`.

    Args:
        detail: For example the agent that came; without content.
    """

    at: float
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ComponentRecord:
    """A part of the session's pipeline, for example `stt`."""

    kind: str
    provider: str
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRecord:
    """A stereo file of the call, the caller on the left, the agent on the right.

    Args:
        path: The given path, on the machine of the session.
        started_at: Seconds from the session's start to the file's first sample.
        seconds: Its length.
        error: The error that ended it early, if any.
    """

    path: str
    started_at: float
    seconds: float
    sample_rate: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFile:
    """A file that the caller has sent.

    Args:
        name: A name for a file system, without folders; the caller has chosen it.
        media_type: The type that the caller has named; the bytes may be of another.
        data: The bytes.
    """

    name: str = field(repr=False)
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRecord:
    """The budget of a session.

    Args:
        cost: Of the call so far, in the unit of the prices; with that of the sessions that it continues.
        cost_limit: None if the cost has no limit.
    """

    cost: float
    cost_limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """All records of a session, version 1. Its JSON schema: `vivavoce.agents.reports.schema()`.

    Args:
        seconds: How long the session has lasted.
        agent_id: The agent that has the conversation, or had it last.
        pipeline, components: The pipeline's name and its parts.
        errors: The first `error` events; `errors_left_out` counts those beyond them.
        dropped_turns: The first turns of the user that were not answered, for example noises.
        budget: None if the session has none.
    """

    session_id: str
    started_at: float
    """Seconds since the Unix epoch."""
    room: str = ""
    turns: tuple[TurnRecord, ...] = ()
    states: tuple[StateRecord, ...] = ()
    usage: UsageRecord = UsageRecord()
    close: CloseReport | None = None
    version: int = REPORT_VERSION
    seconds: float = 0.0
    job_id: str = ""
    agent_id: str = ""
    pipeline: str = ""
    components: tuple[ComponentRecord, ...] = ()
    errors: tuple[ErrorRecord, ...] = ()
    errors_left_out: int = 0
    marks: tuple[MarkRecord, ...] = ()
    recordings: tuple[RecordingRecord, ...] = ()
    dropped_turns: tuple[DroppedTurnRecord, ...] = ()
    budget: BudgetRecord | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as in `report.json`."""
        return asdict(self)
