"""StateGraph: states and transitions of a conversation. It is a description that sessions share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vivavoce.agents.core.names import checked_name
from vivavoce.agents.graphs.graph.checks import findings_of, warnings_of
from vivavoce.agents.graphs.graph.intent import Intent
from vivavoce.agents.graphs.graph.state import Fallback, State
from vivavoce.agents.graphs.intents.classifier import IntentClassifier, ModelIntents
from vivavoce.agents.graphs.machine.rules import GraphRules, OnIntent, Rule, StateRules
from vivavoce.pipelines.core.checks import check_flag, check_items, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, GraphError
from vivavoce.pipelines.llm.tools import Tool

if TYPE_CHECKING:
    from pydantic import BaseModel


class StateGraph:
    """A conversation as states and transitions.

    Args:
        intents: Who judges the intent of the caller's words: `PatternIntents()`, `LLMIntents(llm)`, a classifier of
            your own, or None for `ModelIntents()`.
    """

    def __init__(self, intents: IntentClassifier | ModelIntents | None = None) -> None:
        self._classifier = _checked_intents(intents) or ModelIntents()
        self._states: list[State] = []
        self._intents: list[Intent] = []
        self._fallback = Fallback()
        self._checked: tuple[tuple[object, ...], tuple[str, ...], GraphRules] | None = None
        """The parts of the graph at its last check, the warnings, and the rules; sessions share the rules."""
        self._logged: set[str] = set()
        """The warnings that a session has logged."""

    @property
    def states(self) -> tuple[State, ...]:
        """The states, in the order of their definition."""
        return tuple(self._states)

    @property
    def intents(self) -> tuple[Intent, ...]:
        """The intents, in the order of their definition."""
        return tuple(self._intents)

    def new_state(
        self,
        name: str,
        *,
        initial: bool = False,
        instructions: str = "",
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        intents: IntentClassifier | ModelIntents | None = None,
    ) -> State:
        """Add a state.

        Args:
            name: Unique in the graph.
            initial: Whether sessions begin here.
            instructions: Added to the agent's instructions while the graph is here.
            tools: Added to the agent's tools while the graph is here; one replaces the agent's of the same name.
            intents: Who judges the intent of speech in this state; None for that of the graph.
        """
        checked_name(name)
        check_flag("initial", initial)
        check_text("instructions", instructions)
        state = State(
            name,
            is_initial=initial,
            instructions=instructions,
            tools=_checked_tools(tools),
            intents=_checked_intents(intents) or self._classifier,
            fallback=self._fallback,
        )
        self._states.append(state)
        return state

    def new_intent(
        self,
        name: str,
        examples: Sequence[str] = (),
        *,
        slots: type[BaseModel] | None = None,
        description: str = "",
    ) -> Intent:
        """Add an intent.

        Args:
            name: Unique in the graph.
            examples: Sentences of callers with that intent.
            slots: A pydantic model of the details that such a sentence may hold.
            description: Words for the model that judges.
        """
        checked_name(name)
        check_text("description", description)
        if isinstance(examples, str) or not all(isinstance(example, str) for example in examples):
            raise ConfigurationError(f"examples must be sentences, got {shown(examples)}; for example ['hello', 'hi']")
        if slots is not None:
            from pydantic import BaseModel

            if not (isinstance(slots, type) and issubclass(slots, BaseModel)):
                raise ConfigurationError(f"slots must be a pydantic model class, got {shown(slots)}")
        intent = Intent(name, tuple(examples), slots, description)
        self._intents.append(intent)
        return intent

    def set_fallback_body(self, f: Callable[..., Any]) -> None:
        """Let `f(session)` run for speech that no transition takes, in states without a fallback body of their own."""
        self._fallback.set(f)

    def check(self) -> tuple[str, ...]:
        """Check the graph, unless it has not changed since the last check, and return the warnings; a session calls it
        too.

        Raises:
            GraphError: The graph has faults; it names all of them.
        """
        return self._check()[0]

    def take_new(self, warnings: Iterable[str]) -> list[str]:
        """Return the warnings that no session of this graph has logged yet; they count as logged now."""
        new = [warning for warning in warnings if warning not in self._logged]
        self._logged.update(new)
        return new

    def rules(self) -> GraphRules:
        """Return the rules for the machine.

        Raises:
            GraphError: The graph has faults.
        """
        return self._check()[1]

    def _check(self) -> tuple[tuple[str, ...], GraphRules]:
        parts = self._parts()
        if self._checked is None or self._checked[0] != parts:
            if findings := findings_of(self._states, self._intents):
                raise GraphError(findings)
            self._checked = parts, tuple(warnings_of(self._states, self._intents)), self._rules()
        return self._checked[1], self._checked[2]

    def _parts(self) -> tuple[object, ...]:
        """Return all parts of a graph that may change, so that a change can be found."""
        of_states = (
            (one, one.on_enter, one.on_no_match, one.global_intent, *one.transitions, len(one.builders))
            for one in self._states
        )
        return (*self._intents, *of_states)

    def _rules(self) -> GraphRules:
        ways = [
            Rule(OnIntent(state.global_intent.name), state.name, is_global=True)
            for state in self._states
            if state.global_intent is not None
        ]
        return GraphRules(
            initial=next(state.name for state in self._states if state.is_initial),
            states={
                state.name: StateRules(
                    rules=(*(transition.rule() for transition in state.transitions), *ways),
                    has_body=state.on_enter is not None,
                    has_fallback=state.on_no_match is not None,
                    is_end=not state.transitions,
                    has_classifier=isinstance(state.intents, IntentClassifier),
                )
                for state in self._states
            },
        )


def _checked_intents(intents: object) -> IntentClassifier | ModelIntents | None:
    if intents is not None and not isinstance(intents, IntentClassifier | ModelIntents):
        raise ConfigurationError(f"intents must be an IntentClassifier or None, got {shown(intents)}")
    return intents


def _checked_tools(tools: object) -> tuple[Tool[..., Any], ...]:
    given = check_items("tools", tools, object, remedy="give functions, or tools made by function_tool")
    checked = tuple(tool if isinstance(tool, Tool) else Tool(tool) for tool in given)
    names = [tool.name for tool in checked]
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(f"tools of one state need names of their own, got {double!r} twice")
    for tool in checked:
        tool.check()
    return checked
