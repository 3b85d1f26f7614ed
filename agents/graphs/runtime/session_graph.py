"""SessionGraph: the conversation graph of a session, as `session.graph`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.agents.core.call_site import runs_in_session
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.graphs.graph.state import State
from vivavoce.agents.graphs.intents.classifier import IntentMatch
from vivavoce.agents.records import GraphEvent
from vivavoce.pipelines.core.checks import check_instance, shown
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.graphs.runtime.runtime import GraphRuntime


class SessionGraph:
    """The place of a conversation in its graph. Calls only enqueue, from any thread; the graph then decides."""

    def __init__(self, context: SessionContext, runtime: GraphRuntime) -> None:
        self._context = context
        self._runtime = runtime

    def __repr__(self) -> str:
        return f"SessionGraph({self.current_state!r})"

    @property
    def current_state(self) -> State | None:
        """The state of the conversation; None before it has begun."""
        return self._runtime.state

    @property
    def event(self) -> GraphEvent | None:
        """The last event that the graph has judged. A turn of the caller is `GraphEvent("user_turn", text)`.

        The data of the others: the file, the form's object, the output of the tool, or the session event.
        """
        return self._runtime.event

    @property
    def events(self) -> tuple[GraphEvent, ...]:
        """The events that wait for a state that takes them, oldest first; at most 64."""
        return self._runtime.waiting

    @property
    def intent(self) -> IntentMatch | None:
        """The intent of the caller's last words, with score and slots, or None without one."""
        return self._runtime.intent

    def receive_event(self, event: GraphEvent) -> None:
        """Give the graph an event of the application.

        Raises:
            ConfigurationError: It is not a `GraphEvent`.
            SessionNotStartedError, SessionClosedError: The graph takes no events now.
        """
        check_instance("event", event, GraphEvent)
        self._context.check_open()
        is_own = runs_in_session()
        self._context.inbox.on_loop(lambda: self._runtime.receive(event, is_own=is_own))

    def move(self, state: State | str) -> None:
        """Move to a state without a transition, once the present cause is judged; its body runs.

        Raises:
            ConfigurationError: It is no state of the graph.
            SessionNotStartedError, SessionClosedError: The graph cannot move now.
        """
        states = self._runtime.graph.states
        found = next((one for one in states if one is state or one.name == state), None)
        if found is None:
            names = ", ".join(one.name for one in states)
            raise ConfigurationError(f"state must be a state of the graph ({names}) or its name, got {shown(state)}")
        self._context.check_open()
        is_own = runs_in_session()
        self._context.inbox.on_loop(lambda: self._runtime.move(found.name, is_own=is_own))

    def manage_transition(self) -> None:
        """Judge the transitions without an event now, such as after a change that their conditions cannot see.

        Raises:
            SessionNotStartedError, SessionClosedError: The graph takes nothing now.
        """
        self._context.check_open()
        self._runtime.data_changed()
