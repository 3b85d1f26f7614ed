"""SlotFilling: the slots to fill, the tool to call with them, and the texts of the agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Literal

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.plugins.rules.values import Parser, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One thing to find out.

    Args:
        name: The tool's argument.
        parser: Finds values in the user's words.
        ask: The question.
        heard: Spoken before the next question once the value is known; `{value}` is its place.
        say: Returns the spoken form of a value.
    """

    name: str
    parser: Parser
    ask: str
    heard: str = ""
    say: Callable[[Value], str] = str

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or not self.ask.strip():
            raise ConfigurationError(f"a slot needs an argument's name and a question, got {self.name!r}, {self.ask!r}")
        _check_template("heard", self.heard, {"value"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A text for user words that match `pattern` (a regular expression, searched without regard to case) and fill no
    slot; the open question follows."""

    pattern: str
    text: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ConfigurationError(f"needed a regular expression, got {self.pattern!r}: {error}") from error


YES = r"\b(?:yes|yeah|yep|(?<!not )(?:sure|correct|right|okay|ok)|please do|go ahead)\b"
NO = r"\b(?:no(?! problem| worries| doubt)|nope|nah|not really|i don'?t think so)\b"
FAREWELL = (
    r"\b(?:good ?bye|good-by|bye|that'?s (?:all|it|everything)|that is (?:all|it|everything)"
    r"|that (?:will|would) be all|nothing else|no,? thank you|no,? thanks|hang up)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFilling:
    """A conversation that fills slots and calls one tool with them.

    A value mentioned later replaces the earlier one, in the same sentence or later in the call; once the tool has been
    called, it is called again with the new values. A value that the user takes back ("not Friday", "the time is wrong",
    with the slot's name) is asked for again. Templates take the slots' spoken values by name, and `{output}`, the
    tool's result.

    Args:
        slots: Asked for in this order; a user may give several at once, in any order.
        tool: Called when all slots are filled. Empty: no tool is called, and `done` is spoken then.
        done: Spoken after the tool's first success.
        changed: Spoken after a later one; empty: as `done`.
        failed: Spoken when the tool failed, before `retry`.
        retry: Whether to call the tool again with the same values.
        confirm: A yes-or-no question before the tool is called; empty: it is called at once.
        change: Asked when the answer to `confirm` is no, or the answer to `anything_else` if `ends_on` is "yes", and
            when a correction may be of several slots ("make it eight").
        anything_else: The question when all is done; the answer `ends_on` ends the conversation.
        answers: Small talk, tried in order.
        fallback: Spoken when no rule matched; the open question follows.
        goodbye: Spoken at the end.
    """

    slots: tuple[Slot, ...] = ()
    tool: str = ""
    done: str = ""
    changed: str = ""
    failed: str = "I am sorry, that did not work."
    retry: str = "Shall I try again?"
    confirm: str = ""
    change: str = "What shall I change?"
    anything_else: str = "Is there anything else?"
    ends_on: Literal["yes", "no"] = "no"
    answers: tuple[Answer, ...] = ()
    fallback: str = "Sorry, I did not understand."
    goodbye: str = "Goodbye."
    yes: str = YES
    no: str = NO
    farewell: str = FAREWELL

    def __post_init__(self) -> None:
        names = [slot.name for slot in self.slots]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"every slot needs a name of its own, got {names!r}")
        if not self.slots and not self.answers:
            raise ConfigurationError("a SlotFilling needs slots or answers, got neither")
        for field in ("done", "changed", "failed"):
            _check_template(field, getattr(self, field), {*names, "output"})
        _check_template("confirm", self.confirm, set(names))

    def say(self, template: str, values: Mapping[str, Value], output: str = "") -> str:
        """Return a template with the slots' spoken values and the tool's output in it."""
        spoken = {slot.name: slot.say(values[slot.name]) for slot in self.slots if slot.name in values}
        return template.format(**{"output": output, **spoken})


def _check_template(field: str, template: str, known: set[str]) -> None:
    try:
        used = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise ConfigurationError(f"{field}: needed a template, got {template!r}: {error}") from error
    if used - known:
        raise ConfigurationError(f"{field}: {template!r} may use {sorted(known)}, got {sorted(used - known)}")
