"""Derives the state of a filling from a conversation's history alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.plugins.rules.slot_filling import Slot, SlotFilling
from vivavoce.plugins.rules.values import Mention, Value


class Understood(Enum):
    """The kind of the last event."""

    NOTHING = auto()
    """No rule matches the words."""
    OPENING = auto()
    """No words yet."""
    VALUES = auto()
    """At least one slot got a value (perhaps its old one)."""
    YES = auto()
    NO = auto()
    FAREWELL = auto()
    SMALL_TALK = auto()
    TOOL = auto()
    """The tool's output came."""


@dataclass(slots=True)
class State:
    """The state of a filling.

    Args:
        last_filled: The slots that the last user message gave a value.
        called: The arguments of the newest call that did not fail; None before one.
        successes: How many calls have not failed.
        is_confirmed: The present values were confirmed.
        text: The last user message, in lower case.
    """

    values: dict[str, Value] = field(default_factory=dict)
    last_filled: list[Slot] = field(default_factory=list)
    understood: Understood = Understood.OPENING
    called: dict[str, Value] | None = None
    successes: int = 0
    is_confirmed: bool = False
    has_failed: bool = False
    output: str = ""
    text: str = ""

    def missing(self, filling: SlotFilling) -> Slot | None:
        """Return the slot to ask for next."""
        return next((slot for slot in filling.slots if slot.name not in self.values), None)


def replay(filling: SlotFilling, items: Iterable[ChatItem]) -> State:
    """Return the state of the filling after these items."""
    state = State()
    calls: dict[str, str] = {}
    for item in items:
        if isinstance(item, ChatMessage):
            if item.role == "user" and not (item.backchannel or item.no_transcript) and item.content.strip():
                hear(filling, state, item.content)
        elif isinstance(item, FunctionCall):
            if item.name == filling.tool:
                calls[item.call_id] = item.arguments
        elif isinstance(item, FunctionCallOutput) and item.call_id in calls:
            _settle(state, calls[item.call_id], item)
    return state


def hear(filling: SlotFilling, state: State, words: str) -> None:
    """Apply the user's words."""
    state.text = words.lower().replace("’", "'")
    missing = state.missing(filling)
    awaits_yes = bool(filling.confirm) and missing is None and not state.is_confirmed
    found = find_values(filling, state.text, missing)
    state.last_filled = [slot for slot in filling.slots if slot.name in found]
    if found:
        if any(state.values.get(name) != value for name, value in found.items()):
            state.is_confirmed = state.has_failed = False
        state.values.update(found)
        state.understood = Understood.VALUES
        if awaits_yes and _matches(filling.yes, state.text):
            state.is_confirmed = True
        return
    state.understood = _without_values(filling, state, awaits_yes)
    if state.understood is Understood.YES:
        state.is_confirmed, state.has_failed = True, False


def find_values(filling: SlotFilling, text: str, expected: Slot | None) -> dict[str, Value]:
    """Return the value of each slot that `text` mentions; of several mentions of one slot, the last.

    A bare value counts only for the slot of the last question. If two slots claim the same words, the longer mention
    counts, then the slot of the question, then the earlier slot. Words after "not" are no mention.
    """
    claims: list[tuple[Mention, Slot]] = []
    for slot in filling.slots:
        for mention in slot.parser(text):
            if mention.is_bare and slot is not expected:
                continue
            if re.search(r"\bnot (?:(?:at|on|for) )?$", text[: mention.start]):
                continue
            claims.append((mention, slot))
    claims.sort(key=lambda claim: (claim[0].is_bare, claim[0].start - claim[0].end, claim[1] is not expected))
    kept: list[tuple[Mention, Slot]] = []
    for mention, slot in claims:
        if all(mention.end <= other.start or mention.start >= other.end for other, _ in kept):
            kept.append((mention, slot))
    kept.sort(key=lambda claim: claim[0].start)
    return {slot.name: mention.value for mention, slot in kept}


def _without_values(filling: SlotFilling, state: State, awaits_yes: bool) -> Understood:
    text = state.text
    if _matches(filling.farewell, text):
        return Understood.FAREWELL
    is_settled = state.missing(filling) is None and not awaits_yes
    ends_on = "no" if state.has_failed else filling.ends_on
    if any(_matches(answer.pattern, text) for answer in filling.answers):
        return Understood.SMALL_TALK
    for answer, meaning in (("no", Understood.NO), ("yes", Understood.YES)):
        if _matches(filling.no if answer == "no" else filling.yes, text):
            return Understood.FAREWELL if is_settled and answer == ends_on else meaning
    return Understood.NOTHING


def _settle(state: State, arguments: str, output: FunctionCallOutput) -> None:
    state.understood = Understood.TOOL
    state.output = output.output
    state.has_failed = output.is_error
    if output.is_error:
        return
    state.successes += 1
    try:
        state.called = json.loads(arguments)
    except ValueError:  # a call that did not come from this filling
        state.called = None


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
