"""StateGraph: states and transitions of a conversation. It is a description that sessions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vivavoce.agents.dialogue.graph.checks import findings_of, warnings_of
from vivavoce.agents.dialogue.graph.state import Intent, State
from vivavoce.agents.dialogue.machine.rules import GraphRules, OnIntent, Rule, StateRules
from vivavoce.agents.dialogue.names import checked_name
from vivavoce.pipelines.core.checks import check_flag, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, GraphError

if TYPE_CHECKING:
    from pydantic import BaseModel


class StateGraph:
    """A conversation as states and transitions."""

    def __init__(self) -> None:
        self._states: list[State] = []
        self._intents: list[Intent] = []

    @property
    def states(self) -> tuple[State, ...]:
        """The states, in the order of their definition."""
        return tuple(self._states)

    @property
    def intents(self) -> tuple[Intent, ...]:
        """The intents, in the order of their definition."""
        return tuple(self._intents)

    def new_state(
        self, name: str, *, initial: bool = False, instructions: str = "", tools: Sequence[Any] = ()
    ) -> State:
        """Add a state.

        Args:
            name: Unique in the graph.
            initial: Whether sessions begin here.
            instructions: Added to the agent's instructions while the graph is here.
            tools: Added to the agent's tools while the graph is here.
        """
        checked_name(name)
        check_flag("initial", initial)
        check_text("instructions", instructions)
        state = State(name, is_initial=initial, instructions=instructions, tools=tools)
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

    def check(self) -> tuple[str, ...]:
        """Check the graph and return the warnings; a session calls it too.

        Raises:
            GraphError: The graph has faults; it names all of them.
        """
        if findings := findings_of(self._states, self._intents):
            raise GraphError(findings)
        return tuple(warnings_of(self._states))

    def rules(self, *, has_classifier: bool) -> GraphRules:
        """Return the rules for the machine.

        Raises:
            GraphError: The graph has faults.
        """
        self.check()
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
                )
                for state in self._states
            },
            has_classifier=has_classifier,
        )
