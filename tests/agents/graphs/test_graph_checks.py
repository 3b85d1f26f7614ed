"""The description of a conversation graph and its checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from vivavoce.agents.graphs.graph.state import State
from vivavoce.agents.graphs.graph.state_graph import StateGraph
from vivavoce.agents.graphs.intents.classifier import ModelIntents
from vivavoce.agents.graphs.intents.patterns import PatternIntents
from vivavoce.agents.graphs.machine.rules import OnIntent, Rule, StateRules
from vivavoce.agents.records import GraphEvent
from vivavoce.pipelines.core.errors import ConfigurationError, GraphError


def speak(session: object) -> None:
    """A body."""


def yes(session: object) -> bool:
    """A condition."""
    return True


def graph_of(*names: str) -> tuple[StateGraph, dict[str, State]]:
    """A graph with these states, the first one initial."""
    graph = StateGraph(PatternIntents())
    return graph, {name: graph.new_state(name, initial=name == names[0]) for name in names}


def findings(graph: StateGraph) -> tuple[str, ...]:
    """Return the graph's faults."""
    with pytest.raises(GraphError) as raised:
        graph.check()
    return raised.value.findings


def test_a_graph_without_faults_passes_and_makes_the_machine_s_rules() -> None:
    graph, states = graph_of("a", "b")
    help_wanted = graph.new_intent("help")
    states["a"].when_event("x").with_condition(yes).go_to(states["b"])
    states["b"].set_global(help_wanted)
    states["b"].body(speak)

    assert graph.check() == ()
    way = Rule(OnIntent("help"), "b", is_global=True)
    rules = graph.rules()
    assert rules.initial == "a"
    assert rules.states["a"].rules == (states["a"].transitions[0].rule(), way)
    assert rules.states["b"] == StateRules((way,), has_body=True, is_end=True)


def test_all_faults_come_in_one_error() -> None:
    graph = StateGraph(PatternIntents())
    graph.new_state("a")
    graph.new_state("a")

    assert findings(graph) == (
        "2 states have the name 'a'; give each its own",
        "one state must be initial, got none; make it by new_state(name, initial=True)",
    )


def _two_starts(graph: StateGraph, states: dict[str, State]) -> None:
    graph.new_state("c", initial=True)


def _foreign_target(graph: StateGraph, states: dict[str, State]) -> None:
    states["a"].when_event("y").go_to(StateGraph(PatternIntents()).new_state("other"))


def _foreign_intent(graph: StateGraph, states: dict[str, State]) -> None:
    states["a"].when_intent_matched(StateGraph(PatternIntents()).new_intent("other")).go_to(states["b"])


def _foreign_global_intent(graph: StateGraph, states: dict[str, State]) -> None:
    states["b"].set_global(StateGraph(PatternIntents()).new_intent("other"))


def _shared_global_intent(graph: StateGraph, states: dict[str, State]) -> None:
    intent = graph.new_intent("help")
    for state in states.values():
        state.set_global(intent)


def _no_target(graph: StateGraph, states: dict[str, State]) -> None:
    states["a"].when_no_intent_matched()


def _unreachable(graph: StateGraph, states: dict[str, State]) -> None:
    graph.new_state("c")


def _beside_automatic(graph: StateGraph, states: dict[str, State]) -> None:
    states["a"].go_to(states["b"])


def _shadowed(graph: StateGraph, states: dict[str, State]) -> None:
    states["b"].when_event().go_to(states["a"])
    states["b"].when_file_received("image/png").go_to(states["a"])


def _later_timer(graph: StateGraph, states: dict[str, State]) -> None:
    states["b"].after(5).go_to(states["a"])
    states["b"].after(6).go_to(states["b"])


def _failure_without_body(graph: StateGraph, states: dict[str, State]) -> None:
    states["b"].when_failed().go_to(states["a"])


def _cycle(graph: StateGraph, states: dict[str, State]) -> None:
    third = graph.new_state("c")
    states["b"].go_to(third)
    third.go_to(states["b"])


def _wrong_body(graph: StateGraph, states: dict[str, State]) -> None:
    states["a"].body(lambda: None)


def _plain_generator(graph: StateGraph, states: dict[str, State]) -> None:
    @states["b"].body
    def greet(session: object) -> Iterator[str]:
        yield "Hello."


def _wrong_condition(graph: StateGraph, states: dict[str, State]) -> None:
    states["b"].when_condition(yes, {"n": 1}).go_to(states["a"])


def _frames(graph: StateGraph, states: dict[str, State]) -> None:
    states["a"].when_event("on_speech_in").go_to(states["b"])


def _own_moves(graph: StateGraph, states: dict[str, State]) -> None:
    states["a"].when_event("graph_moved").go_to(states["b"])


def _fallback_without_classifier(graph: StateGraph, states: dict[str, State]) -> None:
    state = graph.new_state("c", intents=ModelIntents())
    states["b"].when_event("y").go_to(state)
    state.set_fallback_body(speak)


def _no_intent_without_classifier(graph: StateGraph, states: dict[str, State]) -> None:
    state = graph.new_state("c", intents=ModelIntents())
    states["b"].when_event("y").go_to(state)
    state.when_no_intent_matched().go_to(states["b"])


NEEDED = "a classifier that judges before the answer; give intents=PatternIntents() or LLMIntents(llm)"


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (
            _frames,
            "state 'a', when_event('on_speech_in') → 'b': frames of audio are no events of a graph; take another event",
        ),
        (
            _own_moves,
            "state 'a', when_event('graph_moved') → 'b': a move of the graph is no event of it; "
            "take the transition that moves",
        ),
        (_fallback_without_classifier, f"the fallback body of 'c' needs {NEEDED}"),
        (_no_intent_without_classifier, f"state 'c', when_no_intent_matched() → 'b' needs {NEEDED}"),
        (_two_starts, "one state must be initial, got 'a', 'c'; make it by new_state(name, initial=True)"),
        (
            _foreign_target,
            "state 'a', when_event('y') → 'other': the target is no state of this graph; make it by new_state()",
        ),
        (
            _foreign_intent,
            "state 'a', when_intent_matched('other') → 'b': the intent is none of this graph; make it by new_intent()",
        ),
        (_foreign_global_intent, "state 'b': its global intent is none of this graph; make it by new_intent()"),
        (_shared_global_intent, "the intent 'help' leads to two global states, 'a' and 'b'; keep one"),
        (_no_target, "state 'a', when_no_intent_matched() has no target; end it with go_to(state)"),
        (_unreachable, "no way leads to the state 'c'; add a transition, or remove it"),
        (
            _beside_automatic,
            "state 'a', go_to → 'b' is automatic and must stand alone; 'a' has other transitions too",
        ),
        (
            _shadowed,
            "state 'b', when_file_received(['image/png']) → 'a' can never be taken: "
            "'b', when_event() → 'a' comes first",
        ),
        (_later_timer, "state 'b', after(6) → 'b' can never be taken: 'b', after(5) → 'a' comes first"),
        (
            _failure_without_body,
            "state 'b', when_failed() → 'a' can never be taken: the state has no body that could fail",
        ),
        (_cycle, "the automatic transitions 'b' → 'c' → 'b' never end; give one of them a condition"),
        (
            _wrong_body,
            "the body of 'a' must be a function of the session, got _wrong_body.<locals>.<lambda>()",
        ),
        (
            _plain_generator,
            "the body of 'b' yields, so it must be async, "
            "got _plain_generator.<locals>.greet(session: 'object') -> 'Iterator[str]'; write async def",
        ),
        (
            _wrong_condition,
            "state 'b', when_condition(…) → 'a': a condition must be a function of the session and its params, "
            "got yes(session: 'object') -> 'bool'",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(fault: Callable[[StateGraph, dict[str, State]], None], finding: str) -> None:
    graph, states = graph_of("a", "b")
    states["a"].when_event("x").go_to(states["b"])
    assert graph.check() == ()

    fault(graph, states)

    assert findings(graph) == (finding,)


def test_a_graph_that_sessions_share_is_checked_once_until_it_changes() -> None:
    graph, states = graph_of("a", "b")
    states["a"].when_event("x").go_to(states["b"])
    rules = graph.rules()
    assert graph.rules() is rules

    for change in (
        lambda: states["b"].body(speak),
        lambda: states["b"].set_fallback_body(speak),
        lambda: states["b"].set_global(graph.new_intent("help")),
        lambda: states["a"].when_event("y").go_to(states["b"]),
    ):
        change()
        assert graph.rules() is not rules
        rules = graph.rules()

    states["a"].when_event("z")
    assert "has no target" in findings(graph)[0]


def test_a_state_from_which_no_way_leads_to_an_end_is_a_warning() -> None:
    graph, states = graph_of("a", "b", "c")
    states["a"].when_event("x").go_to(states["b"])
    states["a"].when_event("y").go_to(states["c"])
    states["c"].when_event("x").go_to(states["c"])

    assert graph.check() == ("no way leads from 'c' to a state without transitions",)


def test_a_global_state_that_has_neither_body_nor_transitions_is_a_warning() -> None:
    graph, states = graph_of("a", "b")
    states["b"].set_global(graph.new_intent("help"))
    assert graph.check() == ("the conversation returns from the global state 'b' at once; give it a body",)

    states["b"].body(speak)
    assert graph.check() == ()


class Day(BaseModel):
    """Slots."""

    day: str


def _second_global(graph: StateGraph, state: State) -> None:
    for intent in (one := graph.new_intent("one"), one, graph.new_intent("two")):
        state.set_global(intent)


def _late_condition(state: State) -> None:
    transition = state.when_event("x")
    transition.go_to(state)
    transition.with_condition(yes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda graph, state: graph.new_state(""), "name must be a text that is not empty, got ''"),
        (lambda graph, state: graph.new_state("x", initial=1), "need initial True or False, got 1"),
        (lambda graph, state: graph.new_intent("x", "hello"), r"examples must be sentences, got 'hello'"),
        (lambda graph, state: graph.new_intent("x", slots=Day(day="")), "slots must be a pydantic model class, got"),
        (lambda graph, state: state.when_event(3), "event must be a GraphEvent, a session event's name or None, got 3"),
        (
            lambda graph, state: state.when_intent_matched("book"),
            r"intent must be the object that new_intent\(\) returned, got 'book'; keep it, such as book = graph.new_",
        ),
        (lambda graph, state: state.when_file_received([]), "allowed_types must be MIME types or None"),
        (lambda graph, state: state.after(0), r"need seconds > 0 \(s\), got 0"),
        (lambda graph, state: state.after(math.inf), "need seconds that come, got inf"),
        (
            lambda graph, state: state.when_event("x").go_to("b"),
            r"state must be the object that new_state\(\) returned, got 'b'; keep it, such as day = graph.new_state",
        ),
        (lambda graph, state: state.go_to("b"), r"must be the object that new_state\(\) returned, got 'b'"),
        (lambda graph, state: state.set_global("help"), r"must be the object that new_intent\(\) returned, got 'help'"),
        (lambda graph, state: _second_global(graph, state), "has the global intent 'one' already, got 'two'; give one"),
        (lambda graph, state: _late_condition(state), "a condition comes before the target"),
        (
            lambda graph, state: state.when_variable_matches_operation("age", ">=", 18),
            "operation must be a function of two values, such as operator.ge, got '>='",
        ),
        (lambda graph, state: GraphEvent(""), "name must name the event"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(call: Callable[[Any, Any], object], message: str) -> None:
    graph = StateGraph(PatternIntents())
    state = graph.new_state("a", initial=True)

    with pytest.raises(ConfigurationError, match=message):
        call(graph, state)


def test_a_condition_with_params_gets_them() -> None:
    graph, states = graph_of("a")

    def is_old(session: int, params: dict[str, int]) -> bool:
        return session >= params["age"]

    states["a"].when_condition(is_old, {"age": 18}).go_to(states["a"])

    (condition,) = states["a"].transitions[0].conditions
    assert (condition(17), condition(18)) == (False, True)
    assert graph.check() == ()
