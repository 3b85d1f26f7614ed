"""Condition, and the words for triggers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vivavoce.agents.graphs.machine.rules import (
    OnEvent,
    OnFailure,
    OnFile,
    OnForm,
    OnIntent,
    OnState,
    OnTimer,
    OnTool,
    Trigger,
)

ConditionFunction = Callable[..., Any]
"""`f(session)`, or `f(session, params)` with the given params; plain or async. The condition holds if the result is
true."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A function that must return truth for a transition to be taken.

    Args:
        params: A second argument for the function; None if it takes the session alone.
    """

    function: ConditionFunction
    params: Mapping[str, Any] | None = None

    def __call__(self, session: object) -> Any:
        """Call the function; an async one returns an awaitable."""
        return self.function(session) if self.params is None else self.function(session, self.params)


def words(trigger: Trigger, *, has_conditions: bool) -> str:
    """Return a trigger as the text of the call that makes it."""
    match trigger:
        case OnEvent(name=name):
            return f"when_event({name!r})" if name else "when_event()"
        case OnIntent(intent=intent):
            return f"when_intent_matched({intent!r})" if intent else "when_no_intent_matched()"
        case OnFile(types=types):
            return f"when_file_received({list(types)!r})" if types else "when_file_received()"
        case OnForm(form=form):
            return f"when_form_submitted({form!r})" if form else "when_form_submitted()"
        case OnTool(tool=tool):
            return f"when_tool_called({tool!r})"
        case OnFailure():
            return "when_failed()"
        case OnTimer(seconds=seconds):
            return f"after({seconds:g})"
        case OnState():
            return "when_condition(…)" if has_conditions else "go_to"
