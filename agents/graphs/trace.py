"""The recorded steps of a graph's machine in the trace of its session, and the replay of these steps.

The first line has the rules of the graph and, of a resumed session, the state to go on from; then comes one for each
input (`agents/turn/trace/record.py`). So a replay needs nothing of the application:

    {"machine": "graph", "at": 4.6, "input": {"is": "GraphBegins", "rules": {...}, "saved": null}, ...}
    {"machine": "graph", "at": 4.6, "input": {"is": "Begun"}, "effects": [{"is": "Moved", ...}], "deadline": null}
    {"machine": "graph", "at": 9.1, "input": {"is": "Judged", "question": 3, "holds": true}, ...}

None of the lines holds content. The machine knows of an event its id, its kind, its name, and the type of a file or
form; the words of speech, the data of events, slots and variables never reach it, only the results of conditions and
classifiers. Nothing is left out, therefore, and the replay is exact. One exception: a value of a class that no trace
can hold, such as a state's name that is a member of an application's `StrEnum`, is only named; its replay is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vivavoce.agents.graphs.machine.effects import GraphEffect
from vivavoce.agents.graphs.machine.inputs import GraphInput
from vivavoce.agents.graphs.machine.machine import GraphMachine
from vivavoce.agents.graphs.machine.rules import GraphRules
from vivavoce.agents.graphs.machine.saved import Saved
from vivavoce.agents.turn.trace.codec import Codec
from vivavoce.agents.turn.trace.record import TraceStep
from vivavoce.agents.turn.trace.replay import Difference, Trace, check_format, decoded, replay_steps
from vivavoce.pipelines.core.errors import TraceError


@dataclass(frozen=True, slots=True)
class GraphBegins:
    """The first line: the arguments of the machine.

    Args:
        resumed_at: Session clock at which the graph continued from `saved`, seconds.
    """

    rules: GraphRules
    saved: Saved | None = None
    resumed_at: float = 0.0


GRAPH = Codec("graph", (GraphInput, GraphEffect, GraphBegins))


class RecordedGraph(GraphMachine):
    """A graph's machine that reports each step, and its beginning before the first one.

    Args:
        record: Called with each step, also with one in which the machine raised.
    """

    def __init__(
        self,
        record: Callable[[TraceStep], None],
        rules: GraphRules,
        saved: Saved | None = None,
        *,
        now: float = 0.0,
    ) -> None:
        super().__init__(rules, saved, now=now)
        self._record = record
        self._begins: GraphBegins | None = GraphBegins(rules, saved, now)

    def handle(self, event: GraphInput, *, now: float) -> list[GraphEffect]:
        """Take one input and return the effects to carry out, in order."""
        if self._begins is not None:
            self._step(self._begins, now, ())
            self._begins = None
        try:
            effects = super().handle(event, now=now)
        except BaseException:
            self._record(TraceStep(now=now, event=event, effects=None, deadline=None, codec=GRAPH))
            raise
        self._step(event, now, tuple(effects))
        return effects

    def _step(self, event: object, now: float, effects: tuple[GraphEffect, ...]) -> None:
        self._record(TraceStep(now=now, event=event, effects=effects, deadline=self.next_deadline(), codec=GRAPH))


def fresh_graph(trace: Trace) -> GraphMachine:
    """Return the machine as it was when the graph of that trace began.

    Raises:
        TraceError: The trace is of an older format or without a graph, or the first line of the graph cannot be taken.
    """
    check_format(trace)
    if not trace.graph:
        raise TraceError("needed a trace of a session with a conversation graph, got one without")
    first = trace.graph[0]
    begins = decoded(first, GRAPH)
    if not isinstance(begins, GraphBegins):
        raise TraceError(f"line {first.line} cannot be replayed: needed the beginning of the graph, got {begins!r}")
    try:
        return GraphMachine(begins.rules, begins.saved, now=begins.resumed_at)
    except (AttributeError, TypeError, ValueError) as error:
        raise TraceError(f"line {first.line} cannot be replayed: {error}") from error


def replay_graph(trace: Trace) -> Difference | None:
    """Feed the graph's inputs to a fresh machine; return the first step that led to something else, if any did.

    Raises:
        TraceError: As `fresh_graph`; or an input is only named in the trace, or is of another version of vivavoce.
    """
    return replay_steps(fresh_graph(trace), trace.graph[1:], GRAPH)
