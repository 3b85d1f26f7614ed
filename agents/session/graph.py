"""Makes the runtime of a session's conversation graph, whose modules are loaded only then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.values import decode, encode
from vivavoce.agents.extension.extension import Attached, Extension, Host
from vivavoce.agents.memory.control import MemoryControl
from vivavoce.agents.memory.options import MemoryOptions
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.traces.trace_writer import TraceWriter
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from vivavoce.agents.graphs.runtime.runtime import GraphRuntime
    from vivavoce.agents.graphs.runtime.session_graph import SessionGraph


def has_graph(options: SessionOptions) -> bool:
    """Whether the session follows a graph."""
    return options.graph is not None


def check_no_flow(options: SessionOptions) -> None:
    """Refuse a conversation flow beside a graph: both would answer.

    Raises:
        ConfigurationError: The session has a graph.
    """
    if has_graph(options):
        raise ConfigurationError(
            "a session follows a conversation graph or a ConversationFlow, got both; "
            "leave GraphOptions(…) or the flow out"
        )


def make_graph_runtime(
    context: SessionContext, options: SessionOptions, pipeline: Pipeline, trace: TraceWriter | None
) -> GraphRuntime | None:
    """Return the runtime of the session's graph; None without a graph.

    Raises:
        GraphError: The graph has faults.
        CapabilityError: Speech may move it before the answer, and the pipeline does not know the words by then.
    """
    if options.graph is None:
        return None
    from vivavoce.agents.graphs.machine.machine import GraphMachine
    from vivavoce.agents.graphs.runtime.runtime import GraphRuntime
    from vivavoce.agents.graphs.trace import RecordedGraph

    check_graph_turns(options, pipeline)
    machine = GraphMachine if trace is None else partial(RecordedGraph, trace.record)
    return GraphRuntime(context, options.graph.graph, machine, limit=options.speech.hook_timeout)


class KeptGraph(Extension):
    """The state of a graph in snapshots, until the graph itself is an extension."""

    key = "graph"

    def __init__(self, runtime: GraphRuntime) -> None:
        self._runtime = runtime

    def attach(self, host: Host) -> Attached:
        """Hang the state at the session."""
        memory = host.attached(MemoryOptions)
        assert isinstance(memory, MemoryControl), "each session has a memory"
        memory.on_private_change(self._runtime.data_changed)
        return _KeptState(self._runtime)


class _KeptState(Attached):
    def __init__(self, runtime: GraphRuntime) -> None:
        self._runtime = runtime
        self._is_open = False

    def open(self) -> None:
        self._is_open = True

    def take(self) -> Callable[[], Any] | None:
        if not self._is_open:
            return None
        taken = encode(self._runtime.taken())
        return lambda: decode(taken)

    def check_taken(self, data: Any) -> None:
        self._runtime.check(data)

    def restore(self, data: Any) -> None:
        self._runtime.resume(data)


def make_session_graph(context: SessionContext, runtime: GraphRuntime | None) -> SessionGraph | None:
    """Return the graph as applications know it; None without one."""
    if runtime is None:
        return None
    from vivavoce.agents.graphs.runtime.session_graph import SessionGraph

    return SessionGraph(context, runtime)


def check_graph_model(options: SessionOptions, agent: Agent, pipeline: Pipeline) -> None:
    """Refuse a pipeline, or a fallback of it, without the model that is to choose the intents of the graph.

    An agent with an `llm_stage` of its own may answer, and choose, without the pipeline's model.

    Args:
        agent: The one that follows the graph: for a task the agent behind it.
    Raises:
        CapabilityError: A state leaves its intents to the model that answers, and the pipeline has none.
    """
    graph = None if options.graph is None else options.graph.graph
    if graph is None or AgentControl.of(agent).overrides("llm_stage"):
        return
    states = [name for name, rules in graph.rules().states.items() if rules.intents and not rules.has_classifier]
    if states and not pipeline.capabilities.can_reply:
        where = f"state{'s' * (len(states) > 1)} {', '.join(map(repr, states))}"
        raise CapabilityError(
            pipeline.name,
            "a graph whose intents the model chooses",
            f"in the {where} ModelIntents() has it choose; give the pipeline an llm, or the graph a classifier that "
            "needs none: StateGraph(PatternIntents())",
        )
    if pipeline.fallback is not None:
        check_graph_model(options, agent, pipeline.fallback)


def check_graph_turns(options: SessionOptions, pipeline: Pipeline) -> None:
    """Refuse a pipeline, or a fallback of it, whose model may answer before the graph has judged the words.

    Raises:
        CapabilityError: Speech may move the graph before the answer, and the pipeline's server decides turns, or its
            transcripts may come after the answer.
    """
    graph = None if options.graph is None else options.graph.graph
    if graph is None or not any(rules.judges_speech for rules in graph.rules().states.values()):
        return
    remedy = ""
    if pipeline.capabilities.decides_turns == "remote":
        remedy = "switch off the turn detection of the model's server"
    elif pipeline.capabilities.hears_audio:
        remedy = "give it an stt, since the model's transcripts may come after the answer"
    if remedy:
        remedy += ", or let ModelIntents() choose, without fallback bodies and without when_event() for turns"
        raise CapabilityError(pipeline.name, "a graph that judges speech before the answer", remedy)
    if pipeline.fallback is not None:
        check_graph_turns(options, pipeline.fallback)
