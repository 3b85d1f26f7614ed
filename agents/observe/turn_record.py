"""TurnRecordBuilder: collects the times of one turn as they happen and makes its TurnRecord."""

from __future__ import annotations

from typing import Literal

from vivavoce.agents.records import HandoffRecord, StageOwner, StageRecord, ToolRecord, TurnOutcome, TurnRecord
from vivavoce.agents.turn.effects import TurnTiming


class TurnRecordBuilder:
    """Builds one record. Stages are contiguous from the true end of the user's speech to the first frame played.

    A provider's stage begins where it was asked: what went by before is marked `unattributed`.

    Args:
        session_start: Session clock at the session's start; the record's times count from it.
        now: When the turn's speech was created.
    """

    def __init__(
        self, turn_id: str, kind: Literal["turn", "say", "reply"], *, session_start: float, now: float
    ) -> None:
        self.turn_id = turn_id
        self.kind = kind
        self.user_text = ""
        self.agent_text: list[str] = []
        self.heard_text: list[str] = []
        self.error = ""
        self.is_empty = False
        self.answered_turn: TurnRecordBuilder | None = None
        """The turn that hands off to the agent which speaks here: this is what its caller hears first."""
        self.preemptive = False
        self.llm_first_token: float | None = None
        self.tts_first_byte: float | None = None
        self._session_start = session_start
        self._created_at = now
        self._timing: TurnTiming | None = None
        self._speech_ended_at: float | None = None
        self._first_played_at: float | None = None
        self._boundary = now
        self._stages: dict[str, StageRecord] = {}
        self._tools: list[ToolRecord] = []
        self._handoffs: list[HandoffRecord] = []

    def committed(self, timing: TurnTiming, user_text: str) -> None:
        """Take what the turn machine knows of the end of the user's turn."""
        self.user_text = user_text
        self._timing = timing
        self._speech_ended_at = self._boundary = timing.speech_ended_at
        self.mark("vad_silence", "config", timing.end_reported_at)
        self.mark("transcript_wait", "provider", timing.final_at)
        self.mark("end_of_turn_decision", "provider", timing.predicted_at)
        self.mark("endpointing_wait", "config", timing.committed_at)

    def mark(self, name: str, owner: StageOwner, at: float | None) -> None:
        """End a stage at `at`; it began where the one before ended. Stages of one name add up."""
        if at is None or self._first_played_at is not None or at <= self._boundary:
            return
        before = self._stages.get(name)
        seconds = at - self._boundary + (before.seconds if before else 0.0)
        self._stages[name] = StageRecord(name, owner, seconds)
        self._boundary = at

    def played(self, at: float) -> None:
        """The first frame of a step is played; only the turn's first one counts."""
        self.mark("playout", "runtime", at)
        if self._first_played_at is None:
            self._first_played_at = at
        if self.answered_turn is not None:
            self.answered_turn.mark("handoff", "user_code", at)
            self.answered_turn.played(at)

    def add_tool(self, tool: ToolRecord) -> None:
        """A tool call was settled."""
        self._tools.append(tool)

    def add_handoff(self, handoff: HandoffRecord) -> None:
        """A tool of the turn handed the conversation off."""
        self._handoffs.append(handoff)

    def build(self, outcome: TurnOutcome, now: float) -> TurnRecord:
        """Return the record of the turn that ended now."""
        latency = None
        if self._speech_ended_at is not None and self._first_played_at is not None:
            latency = self._first_played_at - self._speech_ended_at
        stages = list(self._stages.values()) if latency is not None else []
        return TurnRecord(
            turn_id=self.turn_id,
            kind=self.kind,
            user_text=self.user_text,
            agent_text=" ".join(text for text in self.agent_text if text),
            heard_text=" ".join(text for text in self.heard_text if text),
            outcome=outcome,
            interrupted=outcome == "interrupted",
            e2e_latency=latency,
            stages=tuple(stages),
            tools=tuple(self._tools),
            handoffs=tuple(self._handoffs),
            is_empty=self.is_empty and outcome == "completed",
            ended_by=None if self._timing is None else self._timing.ended_by,
            endpointing_delay=None if self._timing is None else self._timing.delay,
            started_at=(self._created_at if self._speech_ended_at is None else self._speech_ended_at)
            - self._session_start,
            ended_at=now - self._session_start,
            error=self.error,
            preemptive=self.preemptive,
            llm_first_token=self.llm_first_token,
            tts_first_byte=self.tts_first_byte,
        )
