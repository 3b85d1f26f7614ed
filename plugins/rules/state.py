"""Derives the state of a slot filling from a conversation's history alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.plugins.rules.claims import Heard, find_values
from vivavoce.plugins.rules.sentence import plain
from vivavoce.plugins.rules.slot_filling import Slot, SlotFilling
from vivavoce.plugins.rules.values import Value

CHANGE = re.compile(r"\b(?:change|wrong|different|another|incorrect|not right|isn't right)\b")
WRONG = re.compile(r"\b(?:wrong|incorrect|not (?:\w+ )?(?:right|correct)|isn't (?:\w+ )?(?:right|correct))\b")
ONLY_A_NAME = re.compile(r"(?:(?:no|just|only|the|my|it's|um|uh|please|sorry|well|actually) ?)*x(?: please)?")
THANKS = re.compile(
    r"(?:(?:all right|ok|okay|great|perfect|wonderful) )*(?:thanks|thank you)(?: (?:very|so) much| a lot)?"
)


class Understood(Enum):
    """The kind of the last event."""

    NOTHING = auto()
    """No rule matches the words."""
    OPENING = auto()
    """No words yet."""
    VALUES = auto()
    """At least one slot got a value (perhaps its old one)."""
    UNCLEAR = auto()
    """A correction that does not say of which slot."""
    YES = auto()
    NO = auto()
    """No, or a value was taken back."""
    FAREWELL = auto()
    SMALL_TALK = auto()
    TOOL = auto()
    """The tool's output came."""


@dataclass(slots=True)
class State:
    """The state of a slot filling.

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

    def is_done(self, filling: SlotFilling) -> bool:
        """Whether all slots have a value and the tool, if there is one, was called with them."""
        return self.missing(filling) is None and (not filling.tool or self.called == self.values)


def replay(filling: SlotFilling, items: Iterable[ChatItem]) -> State:
    """Return the state of the slot filling after these items."""
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
    last = [slot.name for slot in state.last_filled]
    heard = find_values(filling, state.text, missing, known=state.values, last=last)
    withdrawn = _withdrawn(filling, state, heard)
    for name in withdrawn:
        del state.values[name]
    is_new = bool(withdrawn) or any(state.values.get(name) != value for name, value in heard.values.items())
    state.last_filled = [slot for slot in filling.slots if slot.name in heard.values]
    if is_new:
        state.is_confirmed = state.has_failed = False
    if heard.values and (is_new or not _ends_with_them(filling, state, missing, awaits_yes)):
        state.values.update(heard.values)
        state.understood = Understood.VALUES
        if awaits_yes and not withdrawn and _agrees(filling, state.text):
            state.is_confirmed = True
    elif withdrawn:
        state.understood = Understood.NO
    elif heard.is_unclear:
        state.understood = Understood.UNCLEAR
    else:
        state.understood = _without_values(filling, state, awaits_yes)
    if state.understood is Understood.YES:
        state.is_confirmed, state.has_failed = True, False


def _ends_with_them(filling: SlotFilling, state: State, missing: Slot | None, awaits_yes: bool) -> bool:
    """Return whether words that only repeat the values end the conversation ("yes, Friday at eight. Goodbye.")."""
    if missing is not None or awaits_yes:
        return False
    ends = filling.ends_on == "yes" and _agrees(filling, state.text)
    return ends or matches(filling.farewell, state.text)


def _withdrawn(filling: SlotFilling, state: State, heard: Heard) -> list[str]:
    """Return the names of the slots whose value the words take back ("not Friday", "the day is wrong")."""
    refused = [name for name, values in heard.refused.items() if state.values.get(name) in values]
    if refused or heard.values:
        return [name for name in refused if name not in heard.values]
    text = plain(state.text)
    names = {slot.name: slot.name.replace("_", " ") for slot in filling.slots if slot.name in state.values}
    named = [name for name, words in names.items() if re.search(rf"\b{re.escape(words)}\b", text)]
    if len(named) != 1:
        return []
    is_all = ONLY_A_NAME.fullmatch(text.replace(names[named[0]], "x"))
    return named if is_all or CHANGE.search(text) else []


def _without_values(filling: SlotFilling, state: State, awaits_yes: bool) -> Understood:
    text = state.text
    if matches(filling.farewell, text):
        return Understood.FAREWELL
    is_settled = state.missing(filling) is None and not awaits_yes
    ends_on = "no" if state.has_failed else filling.ends_on
    if any(matches(answer.pattern, text) for answer in filling.answers):
        return Understood.SMALL_TALK
    if is_settled and state.is_done(filling) and not state.has_failed and THANKS.fullmatch(plain(text)):
        return Understood.FAREWELL
    if WRONG.search(plain(text)):
        return Understood.NO
    for answer, meaning in (("no", Understood.NO), ("yes", Understood.YES)):
        if matches(filling.no if answer == "no" else filling.yes, text):
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
    except ValueError:  # a call that did not come from this slot filling
        state.called = None


def _agrees(filling: SlotFilling, text: str) -> bool:
    return matches(filling.yes, text) and not (matches(filling.no, text) or WRONG.search(plain(text)))


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern is in the text, with or without its punctuation."""
    return any(re.search(pattern, form, re.IGNORECASE) for form in (text, plain(text)))
