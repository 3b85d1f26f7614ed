"""AttachedGraph: the graph of a session as an extension of it: its checks, its snapshots, `session.graph`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vivavoce.agents.agent import Agent
from vivavoce.agents.graphs.runtime.fit import check_model, check_turns, warnings_of
from vivavoce.agents.graphs.runtime.runtime import GraphRuntime
from vivavoce.agents.graphs.runtime.session_graph import SessionGraph
from vivavoce.agents.memory.control import MemoryControl
from vivavoce.agents.memory.options import MemoryOptions
from vivavoce.agents.records import GraphEvent
from vivavoce.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.graphs.graph.state_graph import StateGraph


class AttachedGraph(GraphRuntime):
    """The graph of one session.

    Raises:
        GraphError: The graph has faults.
    """

    def __init__(self, host: Host, graph: StateGraph) -> None:
        super().__init__(host, graph)
        self.face = SessionGraph(host.context, self)
        memory = host.attached(MemoryOptions)
        assert isinstance(memory, MemoryControl), "each session has a memory"
        memory.on_private_change(self.data_changed)

    def check(self, agent: Agent, pipeline: Pipeline) -> None:
        """Check that the pipeline knows the words in time, and has a model where that is to choose intents.

        Raises:
            CapabilityError: It does not know them in time, or has no model.
        """
        check_turns(self._rules, pipeline)
        check_model(self._rules, agent, pipeline)
        self.warn(warnings_of(self._rules, agent, pipeline))

    def take(self) -> Callable[[], Any]:
        """Take the state of the machine; in any thread once it has been closed."""
        return self._kept.take()

    def check_taken(self, data: Any) -> None:
        """Check that `restore()` can take that state.

        Raises:
            ConfigurationError: It is of another graph or shape.
        """
        self._kept.check(data)

    def restore(self, data: Any) -> None:
        """Continue from that state.

        Raises:
            ConfigurationError: It is of another graph or shape.
        """
        self._events |= {event.id: GraphEvent(event.name) for event in self._kept.restore(data)}
