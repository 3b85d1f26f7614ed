"""RanSession: a session after its run, and exact expectations on it as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from vivavoce.agents.events import ToolCalled
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.testing.expectations import Expect
from vivavoce.agents.testing.recording import Played, Recording
from vivavoce.agents.testing.run import Run
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import SessionNotStartedError

__tracebackhide__ = True  # pytest shows the line of the test that failed, not ours

EXACT = 0.001
"""Seconds by which an exact time may differ: times are sums of floats."""


class RanSession:
    """A session that a harness runs or has run.

    Args:
        recording: The session's recording.
        expect: Shows the conversation when an expectation fails.
    """

    def __init__(self, recording: Recording, expect: Expect) -> None:
        self.recording = recording
        self.expect = expect
        """Assertions on messages, tool calls and handoffs, one after the other."""
        self._going: Run | None = None

    @property
    def session(self) -> AgentSession[Any]:
        """The session.

        Raises:
            SessionNotStartedError: The harness does not run yet.
        """
        return self._run.session

    @property
    def room(self) -> LocalTransport:
        """The caller's side of the room: transcripts and states, `join`, `drop`, `end`.

        `room.sink.frames()` and `room.sink.played()` hold the heard audio; they are readable after the run too.
        """
        return self._run.transport

    @property
    def _run(self) -> Run:
        if self._going is None:
            raise SessionNotStartedError("the session is made by run(), or by `async with harness`")
        return self._going

    @property
    def states(self) -> list[tuple[str, str, float]]:
        """Return (who, state, at) of each change of state."""
        return self.recording.states()

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Return (role, text) of each message of the history."""
        return [(message.role, message.content) for message in self.session.history.messages()]

    @property
    def played(self) -> list[Played]:
        """Stretches of audio without a gap, as the caller heard them."""
        return self._run.played

    @property
    def tools(self) -> list[ToolCalled]:
        """The tool calls that are complete."""
        return self.recording.of(ToolCalled)

    @property
    def now(self) -> float:
        """Seconds since the session's start."""
        return self._run.now

    # --- assertions; each returns the harness

    def expect_states(self, who: str, *expected: tuple[str, float], tolerance: float = EXACT) -> Self:
        """Expect these changes, (state, at), of "agent" or "user", from the idle state after the start to the close.

        Args:
            tolerance: Seconds by which a time may differ.
        """
        found = [(state, at) for name, state, at in self.states if name == who]
        if found[:1] == [("starting", 0.0)]:
            del found[: 2 if found[1:2] == [("idle", 0.0)] else 1]
        found = [pair for pair in found if pair[0] not in ("closing", "closed")]
        return self._expect(f"states of the {who}", found, expected, tolerance)

    def expect_history(self, *expected: tuple[str, str]) -> Self:
        """Expect exactly these messages, (role, text)."""
        return self._expect("history", self.messages, expected)

    def expect_played(self, *expected: tuple[float, float], tolerance: float = EXACT) -> Self:
        """Expect exactly these stretches of audio, (start, seconds).

        Args:
            tolerance: Seconds by which a start or a length may differ.
        """
        return self._expect("played audio", [tuple(stretch) for stretch in self.played], expected, tolerance)

    def expect_tools(self, *expected: tuple[str, str]) -> Self:
        """Expect exactly these complete calls, (name, output), in the order of their completion."""
        return self._expect("tool calls", [(event.tool, event.output) for event in self.tools], expected)

    def expect_outcomes(self, *expected: str) -> Self:
        """Expect exactly these outcomes of the turns, in the order in which they ended."""
        return self._expect("outcomes", [turn.outcome for turn in self.session.turns], expected)

    def _expect(
        self,
        what: str,
        found: Sequence[tuple[object, ...] | str],
        expected: Sequence[tuple[object, ...] | str],
        tolerance: float = 0.0,
    ) -> Self:
        if not _are_alike(found, expected, tolerance):
            raise AssertionError(self._with_conversation(f"{what}: expected {list(expected)!r}, got {list(found)!r}"))
        return self

    def _with_conversation(self, text: str) -> str:
        return f"{text}\nthe conversation:\n{self.expect.conversation()}"


def _are_alike(found: object, expected: object, tolerance: float) -> bool:
    """Return whether two values, or sequences of them, are equal within a tolerance of their numbers."""
    if isinstance(found, float) and isinstance(expected, float | int):
        return abs(found - expected) <= tolerance
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        pairs = zip(found, expected, strict=False)
        return len(found) == len(expected) and all(_are_alike(one, other, tolerance) for one, other in pairs)
    return found == expected
