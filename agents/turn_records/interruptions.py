"""InterruptionLog: how often one speech was held or cut, by whom, when, and how far it had been heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vivavoce.agents.records import InterruptionRecord
from vivavoce.agents.turn.effects import Cause

PolicyName = Literal["pause", "immediate", "custom"]


@dataclass(slots=True)
class _Hold:
    cause: Cause
    at: float
    stopped_at: float | None


class InterruptionLog:
    """Collects for one speech. Times are the session clock's.

    Args:
        policy: How voices are judged.
        session_start: The records' times count from it.
    """

    def __init__(self, policy: PolicyName, *, session_start: float) -> None:
        self._policy = policy
        self._session_start = session_start
        self._hold: _Hold | None = None
        self.records: list[InterruptionRecord] = []

    def held(self, cause: Cause, at: float, *, stopped_at: float | None) -> None:
        """The playout is held.

        Args:
            stopped_at: When it is silent, its fade included; None where nothing of the speech was heard yet.
        """
        if self._hold is None:
            self._hold = _Hold(cause, at, stopped_at)

    def resumed(self, at: float, *, position: float) -> None:
        """What was held goes on; nothing happens if nothing was.

        Args:
            position: Seconds of the speech heard so far.
        """
        if self._hold is not None:
            self._note("resumed", self._hold.cause, at, stopped_at=None, position=position)

    def cut(self, cause: Cause, at: float, *, stopped_at: float | None, position: float) -> None:
        """The speech is over before its end."""
        if cause.by == "voice" and self._hold is not None:
            cause = self._hold.cause  # the candidate is what held it, not a later sound
        self._note("interrupted", cause, at, stopped_at=stopped_at, position=position)

    def _note(
        self,
        decision: Literal["resumed", "interrupted"],
        cause: Cause,
        at: float,
        *,
        stopped_at: float | None,
        position: float,
    ) -> None:
        hold, self._hold = self._hold, None
        self.records.append(
            InterruptionRecord(
                by=cause.by,
                policy=self._policy if cause.by == "voice" else "",
                decision=decision,
                candidate_at=self._since_start(cause.candidate_at),
                paused_at=None if hold is None else self._since_start(hold.at),
                decided_at=at - self._session_start,
                stopped_at=self._since_start(hold.stopped_at if hold is not None else stopped_at),
                heard_position=position,
            )
        )

    def _since_start(self, at: float | None) -> float | None:
        return None if at is None else at - self._session_start
