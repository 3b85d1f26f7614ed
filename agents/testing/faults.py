"""Faults: errors of a run that no expectation covers: of the application's code, and an error that closed the
session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from vivavoce.agents.events import Closed, ErrorOccurred
from vivavoce.agents.states import CloseReason
from vivavoce.agents.testing.recording import DIGITS, Recording, told_error

FAILING = (
    "hook",
    "handler",
    "tool",
    "wake_up",
    "policy",
    "context_window",
    "guard",
    "graph",
    "dialogues",
    "turn",
    "decision loop",
)
"""Sources of `error` events that fail a test: application code, and faults of the session's own decisions."""
SESSION = "session"
"""Source of the error that closed a session."""


@dataclass(slots=True)
class _Expected:
    source: str | None
    contains: str | None
    has_come: bool = False

    def __str__(self) -> str:
        wanted = [
            f"{name}={value!r}" for name, value in (("source", self.source), ("contains", self.contains)) if value
        ]
        return f"an error ({', '.join(wanted)})" if wanted else "an error"


@dataclass(frozen=True, slots=True)
class _Fault:
    source: str
    text: str = field(repr=False)
    at: float

    def __str__(self) -> str:
        return f"{self.at:.2f} s  {self.source}: {self.text}"


class Faults:
    """Collects errors that fail a run, and the errors that a test expects.

    Args:
        recording: The session's recording.
        keys: Of the application's own extensions, whose errors fail a run too.
    """

    def __init__(self, recording: Recording, keys: Iterable[str] = ()) -> None:
        self._recording = recording
        self._failing = frozenset((*FAILING, *keys))
        self._expected: list[_Expected] = []

    def expect(self, source: str | None, contains: str | None) -> None:
        """Expect at least one such error, and accept all such errors."""
        self._expected.append(_Expected(source, contains))

    def check(self) -> str:
        """Return the unexpected errors and the expected ones that did not come, as one text."""
        every = self._found(all_sources=True)
        for expected in self._expected:
            expected.has_come = any(_fits(expected, fault) for fault in every)
        if missing := [expected for expected in self._expected if not expected.has_come]:
            came = "".join(f"\n  {fault}" for fault in every) or " none"
            return f"expected {', '.join(str(expected) for expected in missing)}; came instead:{came}"
        unexpected = [
            fault for fault in self._found() if not any(_fits(expected, fault) for expected in self._expected)
        ]
        if not unexpected:
            return ""
        lines = "\n".join(f"  {fault}" for fault in unexpected)
        return (
            f"{len(unexpected)} error(s) that the test does not expect; if they are meant, call "
            f"harness.expects_error({unexpected[0].source!r}) before they come:\n{lines}"
        )

    def _found(self, *, all_sources: bool = False) -> list[_Fault]:
        found: list[_Fault] = []
        for event in self._recording.events:
            at = round(event.at, DIGITS)
            if isinstance(event, ErrorOccurred) and (all_sources or event.source in self._failing):
                found.append(_Fault(event.source, told_error(event.error), at))
            elif isinstance(event, Closed) and event.report.reason == CloseReason.ERROR:
                found.append(_Fault(SESSION, f"closed by itself: {event.report.error}", at))
        return found


def _fits(expected: _Expected, fault: _Fault) -> bool:
    is_source = expected.source in (None, fault.source)
    return is_source and (expected.contains or "").casefold() in fault.text.casefold()
