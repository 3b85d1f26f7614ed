"""State, Transition: the parts of a StateGraph."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from vivavoce.agents.graphs.graph.condition import Condition, ConditionFunction, words
from vivavoce.agents.graphs.graph.intent import Intent
from vivavoce.agents.graphs.machine.rules import (
    OnEvent,
    OnFailure,
    OnFile,
    OnForm,
    OnIntent,
    OnState,
    OnTimer,
    OnTool,
    Rule,
    Trigger,
)
from vivavoce.agents.records import GraphEvent
from vivavoce.pipelines.core.checks import check_number, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.tools import Tool

if TYPE_CHECKING:
    from vivavoce.agents.graphs.intents.classifier import IntentClassifier, ModelIntents

BodyT = TypeVar("BodyT", bound=Callable[..., Any])

_UNSET = object()
"""In place of private data that are not set."""


@dataclass(frozen=True, slots=True, eq=False)
class Transition:
    """A way from one state to another.

    Args:
        conditions: All must hold, judged in order.
    """

    trigger: Trigger
    source: State
    target: State
    conditions: tuple[Condition, ...] = ()

    @property
    def is_automatic(self) -> bool:
        """Whether it is taken as soon as its state has done its part."""
        return isinstance(self.trigger, OnState) and not self.conditions

    def rule(self) -> Rule:
        return Rule(self.trigger, self.target.name, is_judged=bool(self.conditions))

    def __repr__(self) -> str:
        return (
            f"{self.source.name!r}, {words(self.trigger, has_conditions=bool(self.conditions))} → {self.target.name!r}"
        )


@dataclass(eq=False, slots=True)
class TransitionBuilder:
    """A transition that still needs its target: `state.when_event(…).with_condition(…).go_to(other)`."""

    source: State
    trigger: Trigger
    conditions: list[Condition] = field(default_factory=list)
    is_complete: bool = False

    def with_condition(self, f: ConditionFunction, params: Mapping[str, Any] | None = None) -> TransitionBuilder:
        """Add a condition; all must hold.

        Args:
            f: `f(session)`, or `f(session, params)` if `params` are given; plain or async.
        Raises:
            ConfigurationError: The transition has its target already.
        """
        if self.is_complete:
            raise ConfigurationError(
                "a condition comes before the target: when_event(…).with_condition(f).go_to(state)"
            )
        self.conditions.append(Condition(f, params))
        return self

    def go_to(self, state: State) -> None:
        """End the transition in `state`."""
        if not isinstance(state, State):
            raise ConfigurationError(
                f"state must be the object that new_state() returned, got {shown(state)}; keep it, such as "
                'day = graph.new_state("day")'
            )
        self.is_complete = True
        self.source.transitions.append(Transition(self.trigger, self.source, state, tuple(self.conditions)))


class Fallback:
    """The fallback body of all states of a graph that have none of their own."""

    def __init__(self) -> None:
        self.body: Callable[..., Any] | None = None

    def set(self, f: Callable[..., Any]) -> None:
        """Let `f(session)` run."""
        self.body = f


class State:
    """A state of a graph, made by `StateGraph.new_state()`. Transitions are judged in the order of their definition."""

    def __init__(
        self,
        name: str,
        *,
        is_initial: bool,
        instructions: str,
        tools: Sequence[Tool[..., Any]],
        intents: IntentClassifier | ModelIntents,
        fallback: Fallback,
    ) -> None:
        self._fallback = fallback
        self._own_fallback: Callable[..., Any] | None = None
        self.name = name
        """The name, unique in the graph."""
        self.is_initial = is_initial
        """Whether sessions begin in this state."""
        self.instructions = instructions
        """Added to the agent's instructions while the graph is here."""
        self.tools = tuple(tools)
        """Added to the agent's tools while the graph is here."""
        self.intents = intents
        """The classifier of the caller's words while the graph is here."""
        self.transitions: list[Transition] = []
        """The ways out of this state."""
        self.builders: list[TransitionBuilder] = []
        """All builders of transitions, so that the check finds those without a target."""
        self.global_intent: Intent | None = None
        """The intent that leads here from every state."""
        self.on_enter: Callable[..., Any] | None = None
        """The body."""

    def __repr__(self) -> str:
        return f"State({self.name!r})"

    @property
    def on_no_match(self) -> Callable[..., Any] | None:
        """The fallback body: its own, or that of the graph."""
        return self._fallback.body if self._own_fallback is None else self._own_fallback

    def body(self, f: BodyT) -> BodyT:
        """Let `f(session)` run each time the graph comes here: a decorator.

        A plain function runs in a thread; an async generator speaks the text that it yields. A later body replaces it.
        """
        self.on_enter = f
        return f

    def set_fallback_body(self, f: Callable[..., Any]) -> None:
        """Let `f(session)` run for speech that no transition takes, in place of the fallback body of the graph.

        Without either, the model answers.
        """
        self._own_fallback = f

    def set_global(self, intent: Intent) -> None:
        """Have `intent` lead here from every state; the graph returns once it is at a state without transitions.

        Raises:
            ConfigurationError: Another intent leads here already; give one intent the examples of both.
        """
        _check_intent(intent)
        if self.global_intent not in (None, intent):
            assert self.global_intent is not None
            raise ConfigurationError(
                f"the state {self.name!r} has the global intent {self.global_intent.name!r} already, got "
                f"{intent.name!r}; give one intent the examples of both"
            )
        self.global_intent = intent

    # --- transitions

    def go_to(self, state: State) -> None:
        """Go on to `state` at once, when the body has ended; the only transition of this state then."""
        self._begin(OnState()).go_to(state)

    def when_event(self, event: GraphEvent | str | None = None) -> TransitionBuilder:
        """Begin a transition for an event of that name: a `GraphEvent`'s, or a session event's, such as "key_pressed";
        None for any."""
        if event is None:
            return self._begin(OnEvent())
        name = event.name if isinstance(event, GraphEvent) else event
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"event must be a GraphEvent, a session event's name or None, got {shown(event)}")
        return self._begin(OnEvent(name))

    def when_condition(self, f: ConditionFunction, params: Mapping[str, Any] | None = None) -> TransitionBuilder:
        """Begin a transition without an event: judged on entry and when private data change.

        Args:
            f: `f(session)`, or `f(session, params)` if `params` are given; plain or async.
        """
        return self._begin(OnState()).with_condition(f, params)

    def when_intent_matched(self, intent: Intent) -> TransitionBuilder:
        """Begin a transition for speech with that intent."""
        _check_intent(intent)
        return self._begin(OnIntent(intent.name))

    def when_no_intent_matched(self) -> TransitionBuilder:
        """Begin a transition for speech with none of the intents of the state and of the global states."""
        return self._begin(OnIntent())

    def when_variable_matches_operation(
        self, name: str, operation: Callable[[Any, Any], Any], target: object
    ) -> TransitionBuilder:
        """Begin a transition for the time when `operation(value, target)` holds, without an event; `value` is the
        private data `name`. It does not hold before the value is set.

        Args:
            operation: For example `operator.ge`.
        """
        check_text("name", name)
        if not callable(operation):
            raise ConfigurationError(
                f"operation must be a function of two values, such as operator.ge, got {shown(operation)}"
            )
        return self.when_condition(_Compared(name, operation, target))

    def when_file_received(self, allowed_types: Sequence[str] | str | None = None) -> TransitionBuilder:
        """Begin a transition for a file of the caller of one of these MIME types; None for any type."""
        if allowed_types is None:
            return self._begin(OnFile())
        types = (allowed_types,) if isinstance(allowed_types, str) else tuple(allowed_types)
        if not types or not all(isinstance(kind, str) and kind for kind in types):
            raise ConfigurationError(f"allowed_types must be MIME types or None, got {shown(allowed_types)}")
        return self._begin(OnFile(types))

    def when_form_submitted(self, form_id: str | None = None) -> TransitionBuilder:
        """Begin a transition for a submitted form of `session.memory.post(Form(Model))`.

        Args:
            form_id: The name of the form's model; None for any form.
        """
        return self._begin(OnForm() if form_id is None else OnForm(check_text("form_id", form_id)))

    def when_tool_called(self, name: str) -> TransitionBuilder:
        """Begin a transition for a call of that tool by the model, once the call has its result."""
        return self._begin(OnTool(check_text("name", name)))

    def when_failed(self) -> TransitionBuilder:
        """Begin a transition for a body that raised."""
        return self._begin(OnFailure())

    def after(self, seconds: float) -> TransitionBuilder:
        """Begin a transition for the time after so many seconds in the state."""
        check_number("seconds", seconds, above=0, unit="s")
        if seconds == math.inf:
            raise ConfigurationError("need seconds that come, got inf; leave the transition out")
        return self._begin(OnTimer(float(seconds)))

    def _begin(self, trigger: Trigger) -> TransitionBuilder:
        builder = TransitionBuilder(self, trigger)
        self.builders.append(builder)
        return builder


def _check_intent(intent: object) -> None:
    if not isinstance(intent, Intent):
        raise ConfigurationError(
            f"intent must be the object that new_intent() returned, got {shown(intent)}; keep it, such as "
            "book = graph.new_intent('book', …), and pass book"
        )


def transition_of(source: State, index: int, target: State) -> str:
    """Return a transition in words, for turn records and events.

    Args:
        index: Its index among the transitions of `source`, followed by the global ones.
    """
    if index < len(source.transitions):
        return repr(source.transitions[index])
    intent = target.global_intent
    return f"set_global({'' if intent is None else intent.name!r}) → {target.name!r}"


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """A condition on private data."""

    name: str
    operation: Callable[[Any, Any], Any]
    target: object

    def __call__(self, session: Any) -> Any:
        value = session.memory.private.get(self.name, _UNSET)
        return value is not _UNSET and self.operation(value, self.target)
