"""ConversationLog: what was said and done in a session, in order, and how far a test has read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vivavoce.agents.events import HistoryItemAdded, TurnCompleted
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing.recording import Recording
from vivavoce.pipelines.llm.chat_context import AgentHandoff, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.chat_units import pairs

E = TypeVar("E", bound="Entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that was said or done.

    Args:
        id: Of its item in the history.
        at: Seconds from the session's start; for what the agent says, when it had been heard.
    """

    id: str
    turn_id: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Entry):
    """Words of the user, the assistant (what was heard of it) or the system."""

    role: str
    text: str = field(repr=False)
    interrupted: bool = False

    def __str__(self) -> str:
        return f"{self.role}: {self.text!r}{' [interrupted]' if self.interrupted else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Entry):
    """A tool call and what it came to; `output` is None while it runs.

    Args:
        arguments: As the model gave them; empty where they were no JSON object.
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
    """The conversation went from agent `old` to agent `new`, by id."""

    old: str
    new: str

    def __str__(self) -> str:
        return f"handoff {self.old} -> {self.new}"


class ConversationLog:
    """Reads what a recording holds; entries that a test has passed are known by id, so that changed ones stay passed.

    Args:
        recording: Of the session; it may still grow.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._passed: set[str] = set()
        self._states_passed = {"agent": 0, "user": 0}

    # --- the conversation

    def entries(self) -> list[Entry]:
        """Return everything said and done so far, as it stands now, a call with its output."""
        times: dict[str, float] = {}
        for event in self.recording.of(HistoryItemAdded):
            times[event.item.id] = round(event.at, 6)
        items = self.recording.items()
        outputs = {call: items[output] for call, output in pairs(items)}
        found: list[Entry] = []
        for number, item in enumerate(items):
            place = {"id": item.id, "turn_id": item.turn_id, "at": times.get(item.id, 0.0)}
            if isinstance(item, ChatMessage):
                words = {"role": item.role, "text": item.content, "interrupted": item.interrupted}
                found.append(Message(**place, **words))  # type: ignore[arg-type]  # mixed values
            elif isinstance(item, FunctionCall):
                output = outputs.get(number)
                assert output is None or isinstance(output, FunctionCallOutput)
                found.append(_call(item, output, at=times.get(item.id, 0.0)))
            elif isinstance(item, AgentHandoff) and item.old_agent:
                found.append(Passed(**place, old=item.old_agent, new=item.new_agent))  # type: ignore[arg-type]
        return found

    def rest(self) -> list[Entry]:
        """Return what the test has not passed."""
        return [entry for entry in self.entries() if entry.id not in self._passed]

    def pass_by(self, *entries: Entry) -> None:
        """Take entries as read."""
        self._passed |= {entry.id for entry in entries}

    def turn_of(self, entry: Entry) -> TurnRecord | None:
        """Return the record of the turn that an entry belongs to, once that has ended."""
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
        """Take changes of state as read."""
        self._states_passed[who] += count

    # --- for messages to the author of a test

    def told(self) -> str:
        """Return the whole conversation, a line an entry; `>` marks the first that the test has not passed."""
        entries = self.entries()
        if not entries:
            return "  (nothing was said or done)"
        rest = {entry.id for entry in self.rest()}
        first = next((entry.id for entry in entries if entry.id in rest), None)
        return "\n".join(
            f"{'>' if entry.id == first else ' '} {number:>3}. {entry.at:>7.2f} s  {entry}"
            for number, entry in enumerate(entries, start=1)
        )


def of_kind(entries: Sequence[Entry], kind: type[E]) -> list[E]:
    """Return the entries of one kind."""
    return [entry for entry in entries if isinstance(entry, kind)]


def _call(item: FunctionCall, output: FunctionCallOutput | None, *, at: float) -> Call:
    try:
        arguments = json.loads(item.arguments)
    except ValueError:
        arguments = None
    return Call(
        id=item.id,
        turn_id=item.turn_id,
        at=at,
        name=item.name,
        arguments=arguments if isinstance(arguments, dict) else {},
        output=None if output is None else output.output,
        is_error=output is not None and output.is_error,
    )
