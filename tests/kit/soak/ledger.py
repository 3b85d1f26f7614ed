"""Ledger: the words of one session and their outcome, and the laws that it has to keep."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kit.soak.providers import PROVOKED, Mood
from vivavoce.agents import AgentSession, AgentState, SpeechHandle
from vivavoce.agents.events import ErrorOccurred, SpeechCreated, TurnCompleted
from vivavoce.agents.records import CloseReport
from vivavoce.agents.turn.trace.replay import read_trace, replay
from vivavoce.pipelines.core.errors import ProviderTimeoutError

LOST_CONNECTION = "the script cut the connection"


class Ledger:
    """Listens to a session from its making; each check raises AssertionError for a law that is broken."""

    def __init__(self, session: AgentSession[None], mood: Mood) -> None:
        self._session = session
        self._mood = mood
        self.words: list[str] = []
        """All that the user was to say."""
        self.told: list[str] = []
        """The words that the session has received."""
        self.cleared: set[str] = set()
        """The words that the application may have dropped."""
        self.handles: list[SpeechHandle] = []
        self.created: list[SpeechCreated] = []
        self.completed: list[TurnCompleted] = []
        self.errors: list[ErrorOccurred] = []
        session.on(SpeechCreated, self.created.append)
        session.on(TurnCompleted, self.completed.append)
        session.on(ErrorOccurred, self.errors.append)

    def check_end(self, report: CloseReport, reason: str | None, limit: float) -> None:
        """The session is closed, for that reason, within `limit` seconds, with only the provoked errors."""
        assert reason is None or report.reason == reason, f"closed by {report.reason}, wanted {reason}"
        assert report.seconds < limit, f"the close took {report.seconds:.1f} s"
        for step in report.steps:
            is_provoked = (step.name == "on_exit" and self._mood.provoked["on_exit"]) or _is_ours(step.error)
            assert not step.error or is_provoked, f"close step {step.name}: {step.error}"
        assert self._session.agent_state is AgentState.CLOSED

    def check_speeches(self) -> None:
        """Every speech that was begun has one outcome."""
        for handle in self.handles:
            assert handle.is_done, f"{handle!r} has no outcome"
        turns = {event.turn_id for event in self.created if event.kind == "turn"}
        others = {event.speech_id for event in self.created if event.kind != "turn"}
        ended = Counter(event.record.turn_id for event in self.completed)
        assert set(ended) == turns | others, f"without an outcome: {(turns | others) ^ set(ended)}"
        assert set(ended.values()) <= {1}, f"with several outcomes: {[t for t, n in ended.items() if n > 1]}"

    def check_words(self, *, all_of_them: bool) -> None:
        """Every word of the user is in one message, at most or exactly."""
        said = [message.content for message in self._session.history.messages("user")]
        found = Counter(word for text in said for word in text.split() if word != "mhm")
        assert set(found) <= set(self.words), "words that nobody said"
        assert set(found.values()) <= {1}, f"in several messages: {[word for word, n in found.items() if n > 1]}"
        lost = set(self.told) - set(found) - self.cleared
        assert not (all_of_them and lost), f"lost: {sorted(lost)}"

    def check_errors(self) -> None:
        """Only the provoked errors came."""
        provoked = self._mood.provoked
        for event in self.errors:
            source = event.source
            # Tries of a request that failed count against its limit.
            is_timeout = isinstance(event.error, ProviderTimeoutError) and (
                provoked[f"{source} hang"] or provoked[source]
            )
            is_tool = source == "tool" and (provoked["tool"] or provoked["tool hang"])
            is_hook = source == "hook" and provoked["on_exit"]
            assert is_timeout or is_tool or is_hook or _is_ours(str(event.error)), f"{source}: {event.error!r}"


def check_trace(path: Path) -> None:
    """The trace is whole and a fresh machine decides the same; then it is not needed any more."""
    with path.open(encoding="utf-8", newline="\n") as file:
        trace = read_trace(file)
    assert trace.end == "closed", f"the trace ends with {trace.end!r}"
    difference = replay(trace)
    assert difference is None, f"the replay differs at line {difference and difference.step.line}"
    path.unlink()


def _is_ours(text: str) -> bool:
    return PROVOKED in text or LOST_CONNECTION in text or text == "RuntimeError"
