"""ConversationLog: the messages, calls, handoffs and failures of a session, in order, and a test's place in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vivavoce.agents.events import (
    Closed,
    ErrorOccurred,
    HistoryItemAdded,
    SessionEvent,
    ToolCalled,
    ToolStarted,
    TurnCompleted,
)
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.states import CloseReason
from vivavoce.agents.testing.recording import DIGITS, Played, Recording, told_error
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.llm.chat_context import AgentHandoff, ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.chat_units import pairs

E = TypeVar("E", bound="Entry")
S = TypeVar("S", bound=SessionEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the conversation.

    Args:
        id: Id of its item in the history.
        at: Seconds from the session's start; for words of the agent, the time when they had been heard.
    """

    id: str
    turn_id: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Entry):
    """Words of the user, the assistant (its heard text) or the system."""

    role: str
    text: str = field(repr=False)
    interrupted: bool = False

    def __str__(self) -> str:
        return f"{self.role}: {self.text!r}{' [interrupted]' if self.interrupted else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Entry):
    """A tool call and its output; `output` is None while it runs.

    Args:
        arguments: As the model gave them; empty if they were no JSON object.
    """

    name: str
    arguments: dict[str, Any] = field(repr=False)
    output: str | None = field(repr=False)
    is_error: bool

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        result = "still runs" if self.output is None else f"{'error ' if self.is_error else ''}{self.output!r}"
        return f"tool call {self.name}({given}) -> {result}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed(Entry):
    """Agent `old` handed the conversation to agent `new`; both are ids."""

    old: str
    new: str

    def __str__(self) -> str:
        return f"handoff {self.old} -> {self.new}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Entry):
    """A turn that failed (`kind`: "turn", "say", "reply"), or the session, with its error."""

    kind: str
    error: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.kind} failed: {self.error}"


class ConversationLog:
    """Reads a recording. Entries that a test has passed are known by id, so that they stay passed when they change.

    Args:
        recording: The session's recording; it may still grow.
        played: Returns the audio that the caller has heard so far.
    """

    def __init__(self, recording: Recording, played: Callable[[], list[Played]] = list) -> None:
        self.recording = recording
        self.played = played
        self._moments_passed: Counter[type[SessionEvent]] = Counter()
        self._passed: set[str] = set()
        self._running: set[str] = set()
        """Calls that ran at the beginning of the exchange."""
        self._read: tuple[int, tuple[ChatItem, ...]] | None = None
        self._entries: list[Entry] = []
        self._states_passed = {"agent": 0, "user": 0}

    # --- the conversation

    def entries(self) -> list[Entry]:
        """Return all entries so far in their present form, a call with its output."""
        now = (len(self.recording.events), self.recording.items())
        if now != self._read:
            self._read, self._entries = now, self._all_entries(now[1])
        return list(self._entries)

    def _all_entries(self, items: Sequence[ChatItem]) -> list[Entry]:
        added = {
            event.item.id: (number, round(event.at, DIGITS))
            for number, event in enumerate(self.recording.events)
            if isinstance(event, HistoryItemAdded)
        }
        outputs = {call: items[output] for call, output in pairs(items)}
        calls = _Calls(self.recording)
        found: list[tuple[int, Entry]] = []
        for number, item in enumerate(items):
            noted, at = added.get(item.id, (-1, 0.0))
            place = {"id": item.id, "turn_id": item.turn_id, "at": at}
            if isinstance(item, ChatMessage):
                words = {"role": item.role, "text": item.content, "interrupted": item.interrupted}
                found.append((noted, Message(**place, **words)))  # type: ignore[arg-type]  # mixed values
            elif isinstance(item, FunctionCall):
                output = outputs.get(number)
                assert output is None or isinstance(output, FunctionCallOutput)
                entry_id = calls.take(item.call_id) if item.id in added else item.id
                found.append((noted, _call(item, output, entry_id=entry_id, at=at)))
            elif isinstance(item, AgentHandoff) and item.old_agent:
                found.append((noted, Passed(**place, old=item.old_agent, new=item.new_agent)))  # type: ignore[arg-type]
        for noted, entry in sorted([*calls.left(), *_failures(self.recording)], key=lambda pair: pair[0]):
            place_after = max(
                (
                    n
                    for n, (when, other) in enumerate(found, start=1)
                    # A call comes after the words of its turn, as in the history.
                    if when < noted or (isinstance(entry, Call) and other.turn_id == entry.turn_id)
                ),
                default=0,
            )
            found.insert(place_after, (noted, entry))
        return [entry for _, entry in found]

    def rest(self) -> list[Entry]:
        """Return the entries that the test has not passed."""
        return [entry for entry in self.entries() if entry.id not in self._passed]

    def pass_by(self, *entries: Entry) -> None:
        """Mark entries as passed."""
        self._passed |= {entry.id for entry in entries}

    def begin_exchange(self) -> None:
        """Mark all entries as passed, and keep the calls that run for `earlier_calls()`."""
        entries = self.entries()
        self._running = {call.id for call in of_kind(entries, Call) if call.output is None}
        self.pass_by(*entries)

    def earlier_calls(self) -> list[Call]:
        """Return the calls that began before the exchange, and ran at its beginning."""
        return [call for call in of_kind(self.entries(), Call) if call.id in self._running]

    def turn_of(self, entry: Entry) -> TurnRecord | None:
        """Return the record of an entry's turn, once that has ended."""
        return self._record(entry.turn_id)

    def answered_turn(self, entry: Entry) -> TurnRecord | None:
        """Return the record of the user's turn that an entry answers: its own, or the last one before it."""
        own = self._record(entry.turn_id)
        if own is not None and own.kind == "turn":
            return own
        before: list[Entry] = []
        for other in self.entries():
            if other.id == entry.id:
                break
            if isinstance(other, Message) and other.role == "user":
                before.append(other)
        return self._record(before[-1].turn_id) if before else None

    def _record(self, turn_id: str) -> TurnRecord | None:
        records = (event.record for event in self.recording.of(TurnCompleted))
        return next((record for record in records if record.turn_id == turn_id), None)

    # --- the states

    def states_left(self, who: str) -> list[tuple[str, float]]:
        """Return (state, at) of the changes that the test has not passed."""
        changes = [(state, at) for name, state, at in self.recording.states() if name == who]
        return changes[self._states_passed[who] :]

    def pass_states(self, who: str, count: int) -> None:
        """Mark changes of state as passed."""
        self._states_passed[who] += count

    # --- outside of the conversation

    def moments_left(self, kind: type[S]) -> list[S]:
        """Return the events of one kind that the test has not passed."""
        return self.recording.of(kind)[self._moments_passed[kind] :]

    def pass_moments(self, kind: type[SessionEvent], count: int) -> None:
        """Mark events of one kind as passed."""
        self._moments_passed[kind] += count

    # --- for messages to the author of a test

    def told(self) -> str:
        """Return the whole conversation, a line an entry; `>` marks the first that the test has not passed."""
        entries = self.entries()
        rest = {entry.id for entry in self.rest()}
        first = next((entry.id for entry in entries if entry.id in rest), None)
        lines = [
            f"{'>' if entry.id == first else ' '} {number:>3}. {entry.at:>7.2f} s  {entry}"
            for number, entry in enumerate(entries, start=1)
        ]
        end = [f"       {self.told_end()}"] if self.told_end() else []
        end += [f"({remark})" for remark in self.recording.remarks]
        return "\n".join((lines or ["  (nothing was said or done)"]) + self._errors_besides(entries) + end)

    def told_end(self) -> str:
        """Return when and why the session closed; nothing if the end of the run closed it, or it still runs."""
        if self.recording.is_ended_by_test:
            return ""
        closed = self.recording.of(Closed)
        return "".join(
            f"{event.at:>7.2f} s  the session {_who_closed(event)}: {event.report.reason}"
            f"{f' ({event.report.error})' if event.report.error else ''}"
            for event in closed
        )

    def _errors_besides(self, entries: Sequence[Entry]) -> list[str]:
        """Return lines of the errors that are in no entry: errors of hooks and handlers, and those that another try
        mended.
        """
        shown = {entry.error for entry in of_kind(entries, Failure)}
        lines = [
            f"       {event.at:>7.2f} s  {_told_error(event)}{' (mended)' if event.is_recovered else ''}"
            for event in self.recording.of(ErrorOccurred)
            if event.source != "tool" and _told_error(event) not in shown
        ]
        return ["errors besides:", *lines] if lines else []


def of_kind(entries: Sequence[Entry], kind: type[E]) -> list[E]:
    """Return the entries of one kind."""
    return [entry for entry in entries if isinstance(entry, kind)]


class _Calls:
    """The tool calls that were started, in order: those in the history, and those that are not there yet.

    A running call keeps its id when it has its output, so a test that has passed it does not meet it again. Models may
    use a call id twice.
    """

    def __init__(self, recording: Recording) -> None:
        self._started: dict[str, list[tuple[int, ToolStarted]]] = {}
        self._settled: dict[str, list[ToolCalled]] = {}
        self._taken: dict[str, int] = {}
        for number, event in enumerate(recording.events):
            if isinstance(event, ToolStarted):
                self._started.setdefault(event.call_id, []).append((number, event))
            elif isinstance(event, ToolCalled):
                self._settled.setdefault(event.call_id, []).append(event)

    def take(self, call_id: str) -> str:
        """Match the next call of this id with its item in the history: return the id of its entry."""
        count = self._taken.get(call_id, 0)
        self._taken[call_id] = count + 1
        return f"{call_id}/{count}"

    def left(self) -> list[tuple[int, Entry]]:
        """Return the calls without a match, each with the number of the event of its start."""
        found: list[tuple[int, Entry]] = []
        for call_id, started in self._started.items():
            settled = self._settled.get(call_id, [])
            for count, (number, event) in enumerate(started):
                if count >= self._taken.get(call_id, 0):
                    result = settled[count] if count < len(settled) else None
                    item = FunctionCall(
                        call_id=call_id, name=event.tool, arguments=event.arguments, turn_id=event.turn_id
                    )
                    at = round(event.at, DIGITS)
                    found.append((number, _call(item, result, entry_id=f"{call_id}/{count}", at=at)))
        return found


def _failures(recording: Recording) -> list[tuple[int, Entry]]:
    """Return failures that no other try mended: of turns, and of the session; each with the number of its event."""
    found: list[tuple[int, Entry]] = []
    texts: dict[str, str] = {}
    for number, event in enumerate(recording.events):
        place = {"id": f"failure/{event.sequence}", "turn_id": event.turn_id, "at": round(event.at, DIGITS)}
        if isinstance(event, ErrorOccurred):
            texts[describe(event.error)] = _told_error(event)  # the text in a turn's record, which is without content
        elif isinstance(event, TurnCompleted) and event.record.outcome == "failed":
            error = texts.get(event.record.error, event.record.error)
            found.append((number, Failure(**place, kind=event.record.kind, error=error)))  # type: ignore[arg-type]
        elif isinstance(event, Closed) and event.report.reason == CloseReason.ERROR:
            found.append((number, Failure(**place, kind="session", error=event.report.error)))  # type: ignore[arg-type]
    return found


def _told_error(event: ErrorOccurred) -> str:
    return f"{event.source}: {told_error(event.error)}"


def _call(item: FunctionCall, output: FunctionCallOutput | ToolCalled | None, *, entry_id: str, at: float) -> Call:
    try:
        arguments = json.loads(item.arguments)
    except ValueError:
        arguments = None
    return Call(
        id=entry_id,
        turn_id=item.turn_id,
        at=at,
        name=item.name,
        arguments=arguments if isinstance(arguments, dict) else {},
        output=None if output is None else output.output,
        is_error=output is not None and output.is_error,
    )


def _who_closed(event: Closed) -> str:
    is_asked_for = event.report.reason == CloseReason.USER_INITIATED.value
    return "was closed by the application" if is_asked_for else "closed by itself"
