"""Laws of the graph machine, on any graph and any inputs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kit.graph_driver import GraphDriver, way
from vivavoce.agents.graphs.machine import effects as e
from vivavoce.agents.graphs.machine import inputs as i
from vivavoce.agents.graphs.machine.machine import MAX_WAITING, GraphMachine
from vivavoce.agents.graphs.machine.moves import MAX_MOVES
from vivavoce.agents.graphs.machine.rules import (
    Event,
    GraphRules,
    OnEvent,
    OnFailure,
    OnFile,
    OnForm,
    OnIntent,
    OnState,
    OnTimer,
    OnTool,
    Rule,
    StateRules,
    fits,
)
from vivavoce.agents.graphs.machine.saved import restored
from vivavoce.agents.graphs.trace import GRAPH, RecordedGraph, fresh_graph
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.trace.record import TraceStep, header_line, step_line
from vivavoce.agents.turn.trace.replay import read_trace, replay_steps

STATES = ("a", "b", "c", "d")
NAMES = st.sampled_from(("x", "y"))

triggers = st.one_of(
    st.builds(OnEvent, st.sampled_from(("", "x", "y"))),
    st.builds(OnIntent, st.sampled_from(("", "x", "y"))),
    st.builds(OnFile, st.sampled_from(((), ("x",), ("x", "y")))),
    st.builds(OnForm, st.sampled_from(("", "x"))),
    st.builds(OnTool, NAMES),
    st.just(OnFailure()),
    st.builds(OnTimer, st.sampled_from((0.5, 1.0, 3.0))),
    st.just(OnState()),
)
rules = st.builds(Rule, triggers, st.sampled_from(STATES), is_judged=st.booleans())
global_rules = st.builds(
    Rule, st.builds(OnIntent, NAMES), st.sampled_from(STATES), is_judged=st.just(False), is_global=st.just(True)
)


@st.composite
def graphs(draw: st.DrawFn) -> GraphRules:
    """Any graph, a wrong one too: automatic cycles, shadowed transitions, unreachable states."""
    ways, has_classifier = draw(st.lists(global_rules, max_size=2)), draw(st.booleans())
    states = {}
    for name in STATES:
        own = draw(st.lists(rules, max_size=4))
        states[name] = StateRules(
            rules=(*own, *ways),
            has_body=draw(st.booleans()),
            has_fallback=draw(st.booleans()),
            is_end=not own,
            has_classifier=has_classifier,
        )
    return GraphRules("a", states)


numbers = st.integers(0, 12)
events = st.builds(
    Event, st.integers(0, 8).map(str), st.sampled_from(("speech", "file", "form", "tool", "event")), NAMES, NAMES
)
inputs = st.one_of(
    st.just(i.Begun()),
    st.builds(i.EventReceived, events),
    st.builds(i.IntentChosen, events, NAMES),
    st.builds(i.Judged, numbers, st.booleans()),
    st.builds(i.Classified, numbers, st.sampled_from(("", "x", "y")), st.floats(0, 1)),
    st.builds(i.BodyEnded, numbers, st.booleans()),
    st.just(i.DataChanged()),
    st.builds(i.MoveRequested, st.sampled_from((*STATES, "nowhere"))),
    st.builds(i.TurnUndone, st.integers(0, 8).map(str)),
    st.just(i.Tick()),
)
timed = st.lists(st.tuples(inputs, st.floats(0, 2)), max_size=40)


def _run(
    machine: GraphMachine, steps: Sequence[tuple[i.GraphInput, float]], now: float = 0.0
) -> list[list[e.GraphEffect]]:
    effects = []
    for event, pause in steps:
        now += pause
        effects.append(machine.handle(event, now=now))
    return effects


bursts = st.tuples(st.builds(Event, st.just(""), st.sampled_from(("file", "tool", "event")), NAMES), st.integers(0, 90))


def _dead_end(*, has_body: bool) -> GraphRules:
    return GraphRules("a", {name: StateRules(has_body=has_body, is_end=True) for name in STATES})


BURST = (Event("", "event", "x"), 90)


@given(graphs(), timed, bursts, timed)
@example(_dead_end(has_body=False), [(i.Begun(), 0.0)], BURST, [])
@example(_dead_end(has_body=True), [(i.Begun(), 0.0)], BURST, [])
def test_no_input_raises_and_no_list_grows_beyond_its_limit(
    graph: GraphRules,
    steps: list[tuple[i.GraphInput, float]],
    burst: tuple[Event, int],
    later: list[tuple[i.GraphInput, float]],
) -> None:
    machine, now = GraphMachine(graph), 0.0
    event, count = burst
    many = [(i.EventReceived(replace(event, id=f"n{number}")), 0.0) for number in range(count)]

    for given_input, pause in [*steps, *many, *later]:
        now += pause
        effects = machine.handle(given_input, now=now)
        assert len(machine.waiting) <= MAX_WAITING
        assert len(machine.to_json(now=now)["arrivals"]) <= MAX_WAITING + 1, "the one that is judged too"
        asked = [one for one in effects if isinstance(one, e.Judge | e.Classify | e.RunBody)]
        assert len(asked) <= 1, "one question or body at a time"
    assert machine.state in (*STATES, "")


@given(graphs(), timed, timed)
def test_a_run_replays_from_its_trace_to_the_same_state(
    graph: GraphRules, before: list[tuple[i.GraphInput, float]], steps: list[tuple[i.GraphInput, float]]
) -> None:
    saved = None
    if before:
        first = GraphMachine(graph)
        _run(first, before)
        saved = restored(first.to_json(now=sum(pause for _, pause in before)), graph)
    recorded: list[TraceStep] = []
    machine = RecordedGraph(recorded.append, graph, saved, now=0.1)
    effects = _run(machine, steps, now=0.1)
    header = header_line(TurnOptions(), session_id="s", version="", began_at=0.0)
    trace = read_trace([header, *map(step_line, recorded)])

    again = fresh_graph(trace) if steps else GraphMachine(graph, saved, now=0.1)
    assert replay_steps(again, trace.graph[1:], GRAPH) is None
    assert [GRAPH.decode(step.effects) for step in trace.graph[1:]] == [tuple(each) for each in effects]  # type: ignore[arg-type]
    assert again.to_json(now=99.0) == machine.to_json(now=99.0)


@given(graphs(), timed, timed)
def test_a_resumed_machine_is_at_the_same_place_and_never_raises(
    graph: GraphRules, steps: list[tuple[i.GraphInput, float]], later: list[tuple[i.GraphInput, float]]
) -> None:
    machine = GraphMachine(graph)
    _run(machine, steps)
    now = sum(pause for _, pause in steps)

    data = json.loads(json.dumps(machine.to_json(now=now)))
    other = GraphMachine(graph, restored(data, graph), now=0.0)

    assert other.state == machine.state
    assert other.to_json(now=0.0) == data
    _run(other, later)


scripts = st.lists(
    st.one_of(
        st.tuples(st.just("speech"), st.sampled_from(("", "x", "y"))),
        st.tuples(st.sampled_from(("file", "form", "tool", "event")), NAMES),
        st.tuples(st.just("wait"), st.sampled_from((0.4, 1.0))),
        st.tuples(st.just("data"), st.just("")),
    ),
    max_size=15,
)


def _driven(graph: GraphRules, script: Sequence[tuple[str, str | float]], answers: Sequence[bool]) -> GraphDriver:
    pending = list(answers)

    def holds(_state: str, _index: int) -> bool:
        return pending.pop(0) if pending else False

    driver = GraphDriver(graph, holds=holds, fails=lambda _state: bool(pending) and pending[-1])
    driver.begin()
    for kind, value in script:
        if kind == "wait":
            driver.wait(float(value))
        elif kind == "speech":
            driver.speech(str(value))
        elif kind == "data":
            driver.send(i.DataChanged())
        else:
            driver.event(str(value), kind, str(value))  # type: ignore[arg-type]  # the kinds of events
    return driver


@given(graphs(), scripts, st.lists(st.booleans(), max_size=30))
def test_each_speech_is_settled_once_and_no_event_is_lost(
    graph: GraphRules, script: list[tuple[str, str | float]], answers: list[bool]
) -> None:
    driver = _driven(graph, script, answers)

    sent = [event.event for event, _ in driver.inputs if isinstance(event, i.EventReceived)]
    settled = Counter(effect.event_id for effect in driver.effects if isinstance(effect, e.Settled))
    assert settled == Counter(event.id for event in sent if event.kind == "speech")
    waiting = [event.id for event in driver.machine.waiting]
    assert waiting == [event.id for event in sent if event.id in waiting], "in their order"
    caused = {effect.event_id for effect in driver.effects if isinstance(effect, e.Moved | e.MovesExceeded)}
    assert {event.id for event in sent if event.kind != "speech"} <= {*waiting, *caused}


@given(graphs(), scripts, st.lists(st.booleans(), max_size=30))
def test_one_cause_leads_to_a_limited_number_of_moves_and_the_way_hangs_together(
    graph: GraphRules, script: list[tuple[str, str | float]], answers: list[bool]
) -> None:
    driver = _driven(graph, script, answers)

    moves = [effect for effect in driver.effects if isinstance(effect, e.Moved)]
    assert [move.source for move in moves] == ["", *(move.state for move in moves[:-1])]
    of_events = Counter(move.event_id for move in moves if move.event_id)
    assert all(count <= MAX_MOVES for count in of_events.values())
    for move in moves:
        if move.transition is not None:
            assert graph.states[move.source].rules[move.transition].target == move.state


@given(graphs().filter(lambda graph: graph.states["a"].has_classifier), scripts)
def test_the_first_transition_that_an_event_sets_off_is_taken(
    graph: GraphRules, script: list[tuple[str, str | float]]
) -> None:
    """Against a plain reading of the rules, where no condition holds and no body raises."""
    driver = _driven(graph, [], [])
    for kind, value in script:
        if kind in ("wait", "data"):
            continue
        here = graph.states[driver.machine.state]
        event = Event("", kind, "user_turn" if kind == "speech" else str(value), str(value))  # type: ignore[arg-type]
        known = value if value in here.intents else ""
        expected = next(
            (
                rule.target
                for rule in here.rules
                if not rule.is_judged and fits(rule.trigger, event, str(known) if kind == "speech" else None)
            ),
            None,
        )
        effects = driver.speech(str(value)) if kind == "speech" else driver.event(str(value), kind, str(value))  # type: ignore[arg-type]

        assert way(effects)[:1] == ([] if expected is None else [expected])


@settings(max_examples=30)
@given(st.integers(1, 200))
def test_waiting_events_are_taken_oldest_first(count: int) -> None:
    count = min(count, MAX_WAITING)
    graph = GraphRules(
        "a",
        {
            "a": StateRules((Rule(OnIntent("go"), "b"),)),
            "b": StateRules((Rule(OnEvent("x"), "c"),)),
            "c": StateRules((Rule(OnEvent("x"), "b"),)),
        },
    )
    driver = GraphDriver(graph)
    driver.begin()
    for number in range(count):
        driver.event("x", id=f"n{number}")

    effects = driver.speech("go")

    assert [effect.event_id for effect in effects if isinstance(effect, e.Moved)][1:] == [
        f"n{number}" for number in range(count)
    ]
