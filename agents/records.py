"""What is kept of a call: one TurnRecord a turn, and the SessionReport. Version 1; later versions only add fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from vivavoce.agents.turn.effects import EndedBy

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
            (the session's own code and what held its event loop up before a provider was asked).
        owner: Who could make it shorter.
        seconds: Time on the critical path, not the provider's own duration.
    """

    name: str
    owner: StageOwner
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """One tool call of a turn; `arguments` and `output` are text as the model saw them."""

    name: str
    arguments: str = field(repr=False)
    output: str = field(repr=False)
    is_error: bool
    seconds: float


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
class TurnRecord:
    """One turn: what the user said, if anything, and what became of the agent's answer.

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
class UsageRecord:
    """What a session used, summed over its providers."""

    llm_input_tokens: int = 0
    llm_output_tokens: int = 0
    llm_cached_tokens: int = 0
    tts_characters: int = 0
    tts_audio_seconds: float = 0.0
    stt_audio_seconds: float = 0.0


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
class SessionReport:
    """Everything kept of a session, version 1."""

    session_id: str
    started_at: float
    """Seconds since the Unix epoch."""
    room: str = ""
    turns: tuple[TurnRecord, ...] = ()
    states: tuple[StateRecord, ...] = ()
    usage: UsageRecord = UsageRecord()
    close: CloseReport | None = None
    version: int = REPORT_VERSION

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as `report.json` holds it."""
        return asdict(self)
