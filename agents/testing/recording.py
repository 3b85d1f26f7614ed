"""Recording: events, history and states of a session, in a form that tests can compare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from vivavoce.agents.agent import Agent
from vivavoce.agents.events import (
    EVENT_TYPES,
    AgentChanged,
    AgentStateChanged,
    Closed,
    SessionEvent,
    SpeechIn,
    SpeechOut,
    UserStateChanged,
)
from vivavoce.agents.transports.local import PlayedFrame
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.llm.chat_context import ChatItem

if TYPE_CHECKING:
    from vivavoce.agents.session.session import AgentSession

E = TypeVar("E", bound=SessionEvent)

DIGITS = 6
"""Times are rounded to a microsecond: clocks add floats."""


class Played(NamedTuple):
    """A stretch of audio without a gap, as the caller heard it: when it began and how long it was, in seconds."""

    start: float
    seconds: float


class Recording:
    """Every event of a session but its audio, oldest first."""

    def __init__(self) -> None:
        self.events: list[SessionEvent] = []
        self.times: list[float] = []
        """When each event was emitted, in the loop's seconds; its own `at` is the time of its cause."""
        self.agents: list[Agent] = []
        """The agents of the conversation, oldest first."""
        self.remarks: list[str] = []
        """Lines about how the session was run, which failures show."""
        self.is_ended_by_test = False
        """Whether the test closed the session; False if it closed by itself."""
        self._by_kind: dict[type[SessionEvent], list[SessionEvent]] = {kind: [] for kind in EVENT_TYPES}
        self._session: AgentSession[object] | None = None

    def end_by_test(self) -> None:
        """The test closes the session, unless it has closed by itself."""
        self.is_ended_by_test = not self.of(Closed)

    def listen(self, session: AgentSession[object]) -> None:
        """Record `session` from now on."""
        from vivavoce.pipelines.core.clock import LoopClock

        clock = LoopClock()
        self._session = session
        self.agents.append(session.agent)

        def note(event: SessionEvent) -> None:
            self.add(event)
            if isinstance(event, AgentChanged):
                self.agents.append(session.agent)
            self.times.append(round(clock.now(), DIGITS))

        for kind in EVENT_TYPES:
            if kind not in (SpeechIn, SpeechOut):
                session.on(kind, note)

    def add(self, event: SessionEvent) -> None:
        """Record an event."""
        self.events.append(event)
        self._by_kind[type(event)].append(event)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        if kind in self._by_kind:
            return cast(list[E], list(self._by_kind[kind]))
        return [event for event in self.events if isinstance(event, kind)]

    def items(self) -> tuple[ChatItem, ...]:
        """Return the present history; nothing before a session is listened to."""
        return () if self._session is None else self._session.history.items

    def states(self) -> list[tuple[str, str, float]]:
        """Return (who, state, at) of each change of state, in order."""
        return [
            ("agent" if isinstance(event, AgentStateChanged) else "user", event.state.value, round(event.at, DIGITS))
            for event in self.events
            if isinstance(event, AgentStateChanged | UserStateChanged)
        ]


def told_error(error: BaseException) -> str:
    """Return the text of an error for a test's author: its kind and text, and those of its cause."""
    told, cause = describe(error, quotes_foreign=True), error.__cause__
    if cause is not None and told.endswith(str(cause)):  # a provider's error holds the text of its cause
        cause = cause.__cause__
    return told if cause is None else f"{told}, from {told_error(cause)}"


def stretches(frames: Iterable[PlayedFrame], *, began_at: float) -> list[Played]:
    """Join consecutive frames without a gap."""
    found: list[tuple[float, float]] = []
    for played in frames:
        start, seconds = played.at - began_at, played.frame.duration
        if found and abs(found[-1][0] + found[-1][1] - start) < 1e-6:
            found[-1] = (found[-1][0], found[-1][1] + seconds)
        else:
            found.append((start, seconds))
    return [Played(round(start, DIGITS), round(seconds, DIGITS)) for start, seconds in found]
