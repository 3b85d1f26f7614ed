"""What is kept of a call: one TurnRecord a turn, and the SessionReport. Version 1; later versions only add fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from vivavoce.agents.turn.effects import EndedBy
from vivavoce.agents.turn.effects import InterruptedBy as InterruptedBy

REPORT_VERSION = 1

TurnOutcome = Literal["completed", "interrupted", "failed", "cancelled", "discarded"]
StageOwner = Literal["config", "provider", "network", "user_code", "runtime"]


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A piece of the silence between the user's last sound and the agent's first.

    Args:
        name: `vad_silence`, `transcript_wait`, `end_of_turn_decision`, `endpointing_wait`, `hook`,
            `model_first_token` (with a conversation flow `flow_first_text`), `first_sentence`, `tts_first_byte`,
            `tools`, `handoff` (what agents that come and go do and say first), `queue`, `playout` or `unattributed`
            (the session's own code and what held its event loop up before a provider was asked). Of a turn that a
            realtime model's server ended: `server_vad_silence` (until it told of the silence), `server_end_of_turn`
            (until it announced its answer), `server_first_output`, then as above.
        owner: Who could make it shorter.
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
        call_id: The model's.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffRecord:
    """The conversation went from agent `old` to agent `new`, named by their ids.

    Args:
        seconds: From the beginning of `on_exit` to the end of `on_enter`, what they said included.
        error: What a hook failed with, without content.
    """

    old: str
    new: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRecord:
    """The agent was held, and then went on or was cut. All times in seconds from the session's start.

    Args:
        by: The caller's voice or typed text, a call of `interrupt()`, another speech, the caller's leaving, the close.
        policy: `InterruptionOptions.mode`, `custom` where an object decides; empty where no voice was judged.
        decision: `resumed`: a false interruption; `interrupted`: the speech was cut.
        candidate_at: The true onset of the user's speech that began it; None where there was none.
        paused_at: When the playout was held, in the middle or before it began; None where it was cut at once.
        decided_at: When it was decided.
        stopped_at: When the agent was silent, its fade included; None where it was not heard before.
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
        attempt: Of the try that failed, from 1.
        error: Without content.
        at: Seconds from the session's start.
    """

    provider: str
    attempt: int
    error: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRecord:
    """What a configured wait cost the caller in this turn.

    Args:
        option: Such as `endpointing.min_delay`; `endpointing.dynamic` is a learned one.
        configured: Seconds, as set or learned; from the true end of speech.
        seconds: What of it was on the critical path.
    """

    option: str
    configured: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """What a session, or a turn, used of its providers, summed."""

    llm_input_tokens: int = 0
    llm_output_tokens: int = 0
    llm_cached_tokens: int = 0
    tts_characters: int = 0
    tts_audio_seconds: float = 0.0
    stt_audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMeasures:
    """What is measured of every turn; the fields stand beside those of `TurnRecord`.

    Args:
        session_id, speech_id, agent_id: Whose turn it is, the speech that answers it, the agent that had the floor.
        answers_turn_id: Of a `reply` that the application did not ask for: the turn that it answers, whose tools came
            to something after it was cut, or whose pipeline was lost. Empty for every other one.
        trace_id: Of the turn's span, 32 hexadecimal digits; empty where the session was not traced.
        user_started_at, user_ended_at: The user's speech: its true onset and end. None where the user did not speak.
        committed_at: When the user's turn was over.
        first_audio_at: When the agent's first frame was played.
        played_seconds, generated_seconds: Audio of the agent that was heard, and that was made.
        interruptions: How often the agent was held or cut.
        waits: What the configured waits cost.
        usage: What this turn used. What an answer that was begun ahead and thrown away used is with the turn that threw
            it away, if a turn did, else only in the session's.
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
    played_seconds: float = 0.0
    generated_seconds: float = 0.0
    interruptions: tuple[InterruptionRecord, ...] = ()
    retries: tuple[RetryRecord, ...] = ()
    waits: tuple[WaitRecord, ...] = ()
    usage: UsageRecord = UsageRecord()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord(TurnMeasures):
    """One turn: what the user said, if anything, and what became of the agent's answer.

    Every turn has exactly one record: also one that failed, was interrupted, cancelled or discarded, each `say` and
    `reply`, and what a session cut as it closed. Texts are empty without `SessionOptions.capture_content`.

    Args:
        agent_text: What was generated; `heard_text`: what the caller heard of it.
        e2e_latency: Seconds from the true end of the user's speech to the first frame played; None where no user turn
            was answered audibly. The `stages` sum to it.
        kind: What made the agent speak.
        started_at, ended_at: Seconds from the session's start.
        error: The failure's text without content, where the outcome is `failed`.
        is_empty: The model's last words were none, so that the caller heard nothing where an answer was due.
        ended_by: What ended the user's turn; None where there was none.
        endpointing_delay: The seconds of silence that did, as configured or learned, where `ended_by` says a pause or a
            timeout. The stages from `vad_silence` to `endpointing_wait` show which of it was on the critical path.
        preemptive: Whether the answer was begun before the turn was over.
        llm_first_token, tts_first_byte: The providers' own durations of the first step, from the request to the first
            word (or call) and to the first audio: unlike a stage, also what went by while something else was waited
            for. None where nothing came.
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

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """`who` ("user" or "agent") went to `state` at `at` seconds from the session's start."""

    who: Literal["user", "agent"]
    state: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseStep:
    """One step of closing: how long it took, and what went wrong (empty if nothing)."""

    name: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseReport:
    """How a session ended."""

    reason: str
    seconds: float
    steps: tuple[CloseStep, ...] = ()
    error: str = ""

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
        is_recovered: Whether the session went on as if nothing had been.
        times: How often it happened, where code that is called for each frame raises: a handler of `on_speech_in` or
            `on_speech_out`, and the agent's hooks of these names. The `error` event comes the first time only.
    """

    at: float
    source: str
    error: str
    is_recovered: bool = False
    times: int = 1


DropReason = Literal["noise", "transcript_missing", "cleared", "backchannel", "merged", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTurnRecord:
    """A turn of the user's that was not answered: it has no outcome, no `TurnRecord` and no `turn_completed`.

    Args:
        turn_id: The id of its span, whose outcome is `dropped`.
        reason: No word came (`noise`, or `transcript_missing` where a transcript was due), `clear_turn()` was called,
            it was a sign of listening (`backchannel`), its words went on with the turn before (`merged`), or the
            session closed.
        at: Seconds from the session's start; the onset of its sound, else the arrival of its first words or of the
            request to commit it.
    """

    turn_id: str
    reason: DropReason
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRecord:
    """Something that happened beside the turns: the event `name` (`wake_up`, `transcript_missing` …) at `at`.

    Args:
        detail: Such as the agent that came, without content.
    """

    at: float
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ComponentRecord:
    """A part of the session's pipeline, such as `stt`."""

    kind: str
    provider: str
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRecord:
    """A stereo file of the call, the caller on the left, the agent on the right.

    Args:
        path: As it was given, where the session ran.
        started_at: Seconds from the session's start to the file's first sample.
        seconds: Its length.
        error: What ended it early, if anything did.
    """

    path: str
    started_at: float
    seconds: float
    sample_rate: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """Everything kept of a session, version 1. Its JSON schema: `vivavoce.agents.reports.schema()`.

    Args:
        seconds: How long the session has lasted.
        agent_id: Who has the conversation, or had it last.
        pipeline, components: The pipeline's name and what it is made of.
        errors: The first `error` events; `errors_left_out` counts those beyond them.
        dropped_turns: The first turns of the user's that were not answered, such as noises.
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

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as `report.json` holds it."""
        return asdict(self)
