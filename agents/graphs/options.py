"""GraphOptions: the conversation graph that a call follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from vivavoce.agents.extension.extension import Attached, Extension
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.extension.attachments import Attachments
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.graphs.graph.state_graph import StateGraph
    from vivavoce.agents.graphs.runtime.session_graph import SessionGraph


@dataclass(frozen=True, slots=True)
class GraphOptions(Extension):
    """The graph that a call follows (`session.graph`).

    Each option: docs/options.md.
    """

    key: ClassVar[str] = "graph"

    graph: StateGraph
    """States and transitions that the conversation follows; a description, which sessions may share."""

    def __post_init__(self) -> None:
        given: Any = self.graph
        from vivavoce.agents.graphs.graph.state_graph import StateGraph

        check_instance("graph", given, StateGraph)

    def attach(self, host: Host) -> Attached:
        """Make the graph of one session.

        Raises:
            GraphError: The graph has faults.
        """
        from vivavoce.agents.graphs.runtime.attached import AttachedGraph

        return AttachedGraph(host, self.graph)


def graph_of(extensions: Attachments) -> SessionGraph:
    """Return the graph of a session, as applications know it.

    Raises:
        ConfigurationError: The session follows none.
    """
    if (attached := extensions.of(GraphOptions)) is None:
        raise ConfigurationError("the session follows no graph; give it one: GraphOptions(StateGraph())")
    graph: Any = attached.face
    followed: SessionGraph = graph
    return followed


def check_answers(flow: object, extensions: Sequence[Extension]) -> None:
    """Refuse a conversation flow beside a conversation graph: both would answer the caller.

    Raises:
        ConfigurationError: There are both.
    """
    if flow is not None and any(isinstance(one, GraphOptions) for one in extensions):
        raise ConfigurationError(
            "a session follows a conversation graph or a ConversationFlow, got both; "
            "leave GraphOptions(…) or the flow out"
        )
