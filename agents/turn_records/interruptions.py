"""InterruptionLog: how often one speech was held or cut, by whom, when, and how far it had been heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vivavoce.agents.records import InterruptionRecord
from vivavoce.agents.turn.effects import Cause, StoppedAs
from vivavoce.agents.turn_records.parts import Interruption, TurnParts

PolicyName = Literal["pause", "immediate", "custom"]


@dataclass(frozen=True, slots=True)
class AgentAt:
    """The agent's audio at the moment when a speech is held or cut.

    Args:
        now: Session clock.
        stopped_at: When it is silent, its fade included; None if nothing of the speech was heard yet.
        is_audible: Whether the caller hears it.
        speaking_since: True onset of the user's present speech; None while the user is silent.
    """

    now: float
    stopped_at: float | None
    is_audible: bool
    speaking_since: float | None


@dataclass(slots=True)
class _Hold:
    cause: Cause
    agent: AgentAt
    began_at: float


class InterruptionLog:
    """Collects the interruptions of one speech. Times are the session clock's.

    Args:
        policy: How voices are judged.
        session_start: The records' times count from it.
        parts: Receives each interruption.
    """

    def __init__(self, policy: PolicyName, *, session_start: float, parts: TurnParts) -> None:
        self._policy = policy
        self._session_start = session_start
        self._parts = parts
        self._hold: _Hold | None = None
        self.records: list[InterruptionRecord] = []

    def held(self, cause: Cause, agent: AgentAt) -> None:
        """The playout is held."""
        if self._hold is None:
            self._hold = _Hold(cause, agent, self._began_at(agent))

    def resumed(self, at: float, *, position: float) -> None:
        """The playout continues; without a hold nothing changes.

        Args:
            position: Seconds of the speech heard so far.
        """
        hold, self._hold = self._hold, None
        if hold is not None:
            self._add(hold, "resumed", hold.cause, at)
            self._note("resumed", hold, hold.cause, at, stopped_at=None, position=position)

    def cut(self, cause: Cause, agent: AgentAt, outcome: StoppedAs, *, position: float) -> None:
        """The speech is over before its end."""
        hold, self._hold = self._hold, None
        if cause.by == "voice" and hold is not None:
            cause = hold.cause  # the candidate is the speech that held the agent, not a later sound
        if hold is not None:
            self._add(hold, outcome, cause, agent.now)
        elif outcome == "interrupted":
            self._parts.interruptions.append(
                Interruption(
                    self._began_at(agent),
                    agent.now,
                    outcome=outcome,
                    held_at=None,
                    by=cause.by,
                    is_audible=agent.is_audible,
                )
            )
        self._note("interrupted", hold, cause, agent.now, stopped_at=agent.stopped_at, position=position)

    def close(self, at: float, *, is_cut: bool) -> None:
        """The speech is over; a hold that is left, such as one of a speech that failed, ends with it."""
        hold, self._hold = self._hold, None
        if hold is not None:
            self._add(hold, "interrupted" if is_cut else "resumed", hold.cause, at)

    def _began_at(self, agent: AgentAt) -> float:
        """Return the onset of the user's speech, as far as the agent's speech had begun by then; else now."""
        onset = agent.speaking_since
        return agent.now if onset is None else min(max(onset, self._parts.began_at), agent.now)

    def _add(self, hold: _Hold, outcome: str, cause: Cause, at: float) -> None:
        agent = hold.agent
        self._parts.interruptions.append(
            Interruption(
                hold.began_at, at, outcome=outcome, held_at=agent.now, by=cause.by, is_audible=agent.is_audible
            )
        )

    def _note(
        self,
        decision: Literal["resumed", "interrupted"],
        hold: _Hold | None,
        cause: Cause,
        at: float,
        *,
        stopped_at: float | None,
        position: float,
    ) -> None:
        self.records.append(
            InterruptionRecord(
                by=cause.by,
                policy=self._policy if cause.by == "voice" else "",
                decision=decision,
                candidate_at=self._since_start(cause.candidate_at),
                paused_at=None if hold is None else self._since_start(hold.agent.now),
                decided_at=at - self._session_start,
                stopped_at=self._since_start(stopped_at if hold is None else hold.agent.stopped_at),
                heard_position=position,
            )
        )

    def _since_start(self, at: float | None) -> float | None:
        return None if at is None else at - self._session_start
