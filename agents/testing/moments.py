"""ExpectMoments: expectations on states, silence, wake-ups and noise, which are outside of the conversation."""

from __future__ import annotations

from typing import Self, TypeVar

from vivavoce.agents.events import FalseInterruption, SessionEvent, TranscriptMissing, WakeUpFired
from vivavoce.agents.testing.log import ConversationLog

__tracebackhide__ = True  # pytest shows the line of the test that failed, not ours

TOLERANCE = 0.02
"""Seconds by which a time may differ if a test does not say otherwise: one frame."""

E = TypeVar("E", bound=SessionEvent)


class ExpectMoments:
    """Expectations that are read on their own, each kind in order; an expectation that fails does not advance.

    Args:
        log: The session's conversation; all expectations of a test share it.
    """

    def __init__(self, log: ConversationLog) -> None:
        self._log = log

    def agent_went(self, *states: str | tuple[str, float], tolerance: float = TOLERANCE) -> Self:
        """Expect the agent's next changes of state, each by name or as (name, seconds from the session's start)."""
        return self._went("agent", states, tolerance)

    def user_went(self, *states: str | tuple[str, float], tolerance: float = TOLERANCE) -> Self:
        """Expect the user's next changes of state, in the same form."""
        return self._went("user", states, tolerance)

    def silent_between(self, start: float, end: float, *, tolerance: float = TOLERANCE) -> Self:
        """Expect that the caller hears nothing of the agent from `start` to `end` (s), as far as time has passed."""
        if not 0 <= start < end:
            raise ValueError(f"a silence needs 0 <= start < end (s), got {start!r}, {end!r}")
        heard = [
            stretch
            for stretch in self._log.played()
            if stretch.start < end - tolerance and stretch.start + stretch.seconds > start + tolerance
        ]
        if heard:
            shown = ", ".join(f"{stretch.start:g} s to {stretch.start + stretch.seconds:g} s" for stretch in heard)
            raise self._failed(f"silence from {start:g} s to {end:g} s", f"the agent sounded from {shown}")
        return self

    def false_interruption(self, at: float | None = None, *, tolerance: float = TOLERANCE) -> Self:
        """Expect a next false interruption: sounds without words held the agent, and it continued at `at`."""
        self._moment(FalseInterruption, "a false interruption", at, tolerance)
        return self

    def transcript_missing(self, at: float | None = None, *, tolerance: float = TOLERANCE) -> Self:
        """Expect a next turn of the user that was dropped for lack of words, at `at`."""
        self._moment(TranscriptMissing, "a missing transcript", at, tolerance)
        return self

    def wake_up(self, level: int | None = None, *, at: float | None = None, tolerance: float = TOLERANCE) -> Self:
        """Expect a next wake-up, of that level, at `at`."""
        wanted = "a wake-up" if level is None else f"a wake-up of level {level}"
        event = self._moment(WakeUpFired, wanted, at, tolerance, passes=False)
        if level is not None and event.level != level:
            raise self._failed(wanted, f"level {event.level} at {event.at:g} s")
        self._log.pass_moments(WakeUpFired, 1)
        return self

    def no_false_interruption(self) -> Self:
        """Expect no further false interruption."""
        return self._none(FalseInterruption, "no false interruption")

    def no_transcript_missing(self) -> Self:
        """Expect no further turn that was dropped for lack of words."""
        return self._none(TranscriptMissing, "no missing transcript")

    def no_wake_up(self) -> Self:
        """Expect no further wake-up."""
        return self._none(WakeUpFired, "no wake-up")

    def _moment(self, kind: type[E], wanted: str, at: float | None, tolerance: float, *, passes: bool = True) -> E:
        left = self._log.moments_left(kind)
        wanted = wanted if at is None else f"{wanted} at {at:g} s, ± {tolerance:g}"
        if not left:
            raise self._failed(wanted, "none")
        if at is not None and abs(left[0].at - at) > tolerance + 1e-9:
            raise self._failed(wanted, f"one at {left[0].at:g} s")
        if passes:
            self._log.pass_moments(kind, 1)
        return left[0]

    def _none(self, kind: type[SessionEvent], wanted: str) -> Self:
        if left := self._log.moments_left(kind):
            raise self._failed(wanted, ", ".join(f"one at {event.at:g} s" for event in left))
        return self

    def _went(self, who: str, states: tuple[str | tuple[str, float], ...], tolerance: float) -> Self:
        came = self._log.states_left(who)[: len(states)]
        fits = len(came) == len(states) and all(
            state == found if isinstance(state, str) else state[0] == found and abs(state[1] - at) <= tolerance + 1e-9
            for state, (found, at) in zip(states, came, strict=True)
        )
        if not fits:
            left = ", ".join(f"{state} at {at:g} s" for state, at in self._log.states_left(who)) or "none"
            raise AssertionError(f"expected the {who} to go next to {list(states)!r}\ncame instead: {left}")
        self._log.pass_states(who, len(states))
        return self

    def _failed(self, wanted: str, came: str) -> AssertionError:
        return AssertionError(f"expected {wanted}\ncame instead: {came}\nthe conversation:\n{self._log.told()}")
