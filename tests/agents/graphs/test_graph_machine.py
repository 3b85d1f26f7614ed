"""The machine of a conversation graph, on graphs that are written as applications write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kit.graph_driver import GraphDriver, bodies, way
from vivavoce.agents.graphs.graph.state_graph import StateGraph
from vivavoce.agents.graphs.intents.patterns import PatternIntents
from vivavoce.agents.graphs.machine import effects as e
from vivavoce.agents.graphs.machine import inputs as i
from vivavoce.agents.graphs.machine.machine import MAX_WAITING, GraphMachine
from vivavoce.agents.graphs.machine.moves import MAX_MOVES
from vivavoce.agents.graphs.machine.rules import Event
from vivavoce.agents.graphs.machine.saved import restored
from vivavoce.pipelines.core.errors import ConfigurationError


def speak(session: object) -> None:
    """A body."""


def yes(session: object) -> bool:
    """A condition."""
    return True


def booking() -> StateGraph:
    """A booking: greeting, day, done; a global state for opening hours."""
    graph = StateGraph(PatternIntents())
    book, hours = graph.new_intent("book"), graph.new_intent("hours")
    greeting, day, done = (graph.new_state(name, initial=name == "greeting") for name in ("greeting", "day", "done"))
    opening = graph.new_state("opening")
    for state in (greeting, day, done, opening):
        state.body(speak)
    day.set_fallback_body(speak)
    greeting.when_intent_matched(book).go_to(day)
    day.when_form_submitted("calendar").go_to(done)
    day.after(30).go_to(greeting)
    opening.set_global(hours)
    return graph


def driver(graph: StateGraph, *, has_classifier: bool = True, **answers: Any) -> GraphDriver:
    """A driver of that graph."""
    rules = graph.rules()
    states = {name: replace(state, has_classifier=has_classifier) for name, state in rules.states.items()}
    return GraphDriver(replace(rules, states=states), **answers)


def test_the_initial_state_s_body_runs_at_the_beginning_once() -> None:
    graph = driver(booking())

    assert bodies(graph.begin()) == ["greeting"]
    assert graph.begin() == []


def test_speech_with_an_intent_moves_and_the_new_state_s_body_answers() -> None:
    graph = driver(booking())
    graph.begin()

    effects = graph.speech("book")

    assert way(effects) == ["day"]
    assert effects[-2:] == [e.RunBody(3, "day", "e1"), e.Settled("e1", ran_body=True)]


def test_speech_that_no_transition_takes_runs_the_fallback_body_or_is_the_model_s() -> None:
    graph = driver(booking())
    graph.begin()

    assert graph.speech()[-1] == e.Settled("e1", ran_body=False)
    graph.speech("book")
    assert bodies(graph.speech()) == ["day?"]


def test_a_score_below_the_least_is_no_intent() -> None:
    graph = driver(booking())
    graph.begin()

    assert way(graph.speech("book", 0.39)) == []
    assert way(graph.speech("book", 0.4)) == ["day"]


def test_an_event_that_comes_too_early_waits_for_the_state_that_takes_it() -> None:
    graph = driver(booking())
    graph.begin()

    assert way(graph.event("form_submitted", "form", "calendar")) == []
    assert way(graph.speech("book")) == ["day", "done"]
    assert graph.machine.waiting == ()


def test_at_most_a_number_of_events_wait_and_the_oldest_is_dropped() -> None:
    graph = driver(booking())
    graph.begin()

    effects = [graph.event(f"n{number}", id=f"n{number}") for number in range(MAX_WAITING + 2)]

    assert effects[-2:] == [[e.EventDropped("n0")], [e.EventDropped("n1")]]
    assert [event.id for event in graph.machine.waiting] == [f"n{number}" for number in range(2, MAX_WAITING + 2)]


def test_a_global_state_returns_to_the_state_before_whose_body_runs_again() -> None:
    graph = driver(booking())
    graph.begin()
    graph.speech("book")

    effects = graph.speech("hours")

    assert way(effects) == ["opening", "day"]
    assert bodies(effects) == ["opening", "day"]
    assert [effect for effect in effects if isinstance(effect, e.Settled)] == [e.Settled("e2", ran_body=True)]


def test_a_timer_counts_from_the_entry_and_is_gone_with_its_state() -> None:
    graph = driver(booking())
    graph.begin()
    graph.speech("book")

    assert graph.wait(29.9) == []
    assert way(graph.wait(0.1)) == ["greeting"]
    graph.speech("book")
    graph.event("form_submitted", "form", "calendar")
    assert graph.machine.next_deadline() is None
    assert graph.wait(100) == []


def test_a_timer_whose_condition_does_not_hold_takes_no_later_timer_s_transition() -> None:
    graph = StateGraph(PatternIntents())
    one, soon, late = (graph.new_state(name, initial=name == "1") for name in ("1", "soon", "late"))
    one.after(5).with_condition(yes).go_to(soon)
    one.after(60).go_to(late)
    machine = driver(graph, holds=lambda _state, _index: False)
    machine.begin()

    assert way(machine.wait(59)) == []
    assert way(machine.wait(1)) == ["late"]


def test_a_timer_that_is_due_while_its_state_is_left_does_nothing_in_the_next_state() -> None:
    graph = StateGraph(PatternIntents())
    one, two, late = (graph.new_state(name, initial=name == "1") for name in ("1", "2", "late"))
    one.after(5).go_to(late)
    one.when_event("go").with_condition(yes).go_to(two)
    two.after(60).go_to(late)
    machine = driver(graph)
    machine.begin()
    machine.answers = False
    machine.event("go")
    assert machine.wait(5) == []
    machine.answers = True

    assert way(machine.send(i.Tick())) == ["2"]
    assert machine.machine.next_deadline() == 65


def test_a_global_state_within_the_chain_of_another_returns_to_the_state_before_both() -> None:
    graph = booking()
    human, first = graph.new_state("human"), graph.new_state("first")
    first.set_global(graph.new_intent("first"))
    first.when_event("x").go_to(human)
    machine = driver(graph)
    machine.begin()
    assert way(machine.speech("first")) == ["first"]

    assert way(machine.speech("hours")) == ["opening", "greeting"]


def test_a_chain_that_leads_back_by_itself_has_returned_and_a_body_does_not_run_twice() -> None:
    graph = StateGraph(PatternIntents())
    begin, end, human = graph.new_state("begin", initial=True), graph.new_state("end"), graph.new_state("human")
    for state in (begin, end, human):
        state.body(speak)
    end.set_global(graph.new_intent("bye"))
    human.set_global(graph.new_intent("human"))
    begin.when_event("done").go_to(end)
    human.when_event("back").go_to(begin)
    machine = driver(graph)
    machine.begin()
    machine.speech("human")
    machine.event("back")
    assert bodies(machine.event("done")) == ["end"]
    assert bodies(machine.speech("bye")) == ["end"]


def test_conditions_are_judged_in_order_and_the_first_that_holds_wins() -> None:
    graph = StateGraph(PatternIntents())
    begin, one, two, three = (graph.new_state(name, initial=name == "begin") for name in ("begin", "1", "2", "3"))
    begin.when_event("go").with_condition(yes).go_to(one)
    begin.when_event("go").with_condition(yes).go_to(two)
    begin.when_event("go").go_to(three)
    asked: list[int] = []

    def holds(_state: str, transition: int) -> bool:
        asked.append(transition)
        return transition == 1

    machine = driver(graph, holds=holds)
    machine.begin()

    assert way(machine.event("go")) == ["2"]
    assert asked == [0, 1]


@pytest.mark.parametrize("has_failed", [True, False])
def test_a_body_that_raised_takes_the_transition_for_it(has_failed: bool) -> None:
    graph = StateGraph(PatternIntents())
    begin, sorry, fine = (graph.new_state(name, initial=name == "begin") for name in ("begin", "sorry", "fine"))
    begin.body(speak)
    begin.when_failed().go_to(sorry)
    begin.when_condition(yes).go_to(fine)

    machine = driver(graph, fails=lambda _state: has_failed)

    assert way(machine.begin()) == ["begin", "sorry" if has_failed else "fine"]


def test_transitions_without_an_event_are_judged_on_entry_and_when_data_change() -> None:
    graph = StateGraph(PatternIntents())
    begin, adult = graph.new_state("begin", initial=True), graph.new_state("adult")
    begin.when_variable_matches_operation("age", int.__ge__, 18).go_to(adult)
    age = [17]
    machine = driver(graph, holds=lambda _state, _index: age[0] >= 18)

    assert way(machine.begin()) == ["begin"]
    assert way(machine.send(i.DataChanged())) == []
    age[0] = 18
    assert way(machine.send(i.DataChanged())) == ["adult"]


def test_one_cause_leads_to_a_limited_number_of_moves() -> None:
    graph = StateGraph(PatternIntents())
    here, there = graph.new_state("here", initial=True), graph.new_state("there")
    here.when_event("go").go_to(there)
    here.when_condition(yes).go_to(there)
    there.when_condition(yes).go_to(here)
    machine: GraphDriver = driver(graph, holds=lambda _state, _index: len(machine.effects) > 2)
    machine.begin()

    effects = machine.event("go")
    assert len(way(effects)) == MAX_MOVES
    assert effects[-1] == e.MovesExceeded("here", "e1")


def test_speech_is_settled_after_its_moves_were_exceeded() -> None:
    graph = StateGraph(PatternIntents())
    here = graph.new_state("here", initial=True)
    here.when_condition(yes).go_to(here)
    here.when_intent_matched(graph.new_intent("go")).go_to(here)
    machine: GraphDriver = driver(graph, holds=lambda _state, _index: bool(way(machine.effects)[1:]))
    machine.begin()

    assert machine.speech("go")[-2:] == [e.MovesExceeded("here", "e1"), e.Settled("e1", ran_body=False)]


def test_the_answering_model_chooses_an_intent_where_nobody_judges_before() -> None:
    graph = driver(booking(), has_classifier=False)
    graph.begin()

    assert graph.speech("book") == [e.Settled("e1", ran_body=False)]
    effects = graph.send(i.IntentChosen(Event("e1", "speech", "user_turn"), "book"))
    assert way(effects) == ["day"]
    assert bodies(effects) == ["day"]
    assert graph.send(i.IntentChosen(Event("e1", "speech", "user_turn"), "nonsense")) == [e.Settled("e1", False)]


def silent() -> StateGraph:
    """A graph whose states have no bodies."""
    graph = StateGraph(PatternIntents())
    begin, day, done = (graph.new_state(name, initial=name == "begin") for name in ("begin", "day", "done"))
    begin.when_intent_matched(graph.new_intent("book")).go_to(day)
    begin.after(5).go_to(done)
    day.when_event("paid").go_to(done)
    return graph


def test_a_turn_that_goes_on_takes_its_move_back() -> None:
    graph = driver(silent())
    graph.begin()
    graph.speech("book", id="turn")
    assert graph.machine.state == "day"

    assert graph.send(i.TurnUndone("turn")) == [e.Moved("begin", "day", "undo", event_id="turn")]
    assert graph.machine.next_deadline() == 5
    assert graph.send(i.TurnUndone("turn")) == []


@pytest.mark.parametrize("happens", ["event", "data"])
def test_the_state_of_a_turn_that_goes_on_takes_what_came_meanwhile(happens: str) -> None:
    graph = silent()
    begin, _, done = graph.states
    begin.when_event("news").go_to(done)
    begin.when_condition(yes).go_to(done)
    changes: set[str] = set()
    running = driver(graph, holds=lambda _state, _index: "data" in changes)
    running.begin()
    running.speech("book", id="turn")
    changes.add(happens)
    running.event("news") if happens == "event" else running.send(i.DataChanged())

    assert way(running.send(i.TurnUndone("turn"))) == ["begin", "done"]
    assert running.machine.waiting == ()


@pytest.mark.parametrize("later", ["body", "move"])
def test_a_move_after_which_a_body_ran_or_another_move_came_stays(later: str) -> None:
    graph = driver(booking() if later == "body" else silent())
    graph.begin()
    graph.speech("book", id="turn")
    if later == "move":
        graph.event("paid")
    state = graph.machine.state

    assert graph.send(i.TurnUndone("turn")) == []
    assert graph.machine.state == state


def test_a_turn_that_goes_on_while_it_is_judged_is_judged_no_more() -> None:
    graph = driver(silent())
    graph.begin()
    graph.answers = False
    graph.speech("book", id="turn")
    graph.speech("book", id="next")

    assert [type(effect) for effect in graph.send(i.TurnUndone("turn"))] == [e.Classify]
    graph.answer()  # the answer to the question that is none any more
    assert graph.machine.state == "begin"
    graph.answers = True
    assert way(graph.send(i.Tick())) == ["day"]
    assert [effect for effect in graph.effects if isinstance(effect, e.Settled)] == [e.Settled("next", False)]


def test_events_that_come_while_a_body_runs_are_judged_after_it() -> None:
    graph = driver(booking())
    graph.answers = False
    graph.begin()

    assert graph.speech("book") == []
    graph.answers = True
    graph.answer()
    assert way(graph.send(i.Tick())) == ["day"]


def test_the_application_moves_to_any_state_and_leaves_the_chain_of_a_global_state() -> None:
    graph = driver(booking())
    graph.begin()
    graph.speech("book")
    graph.send(i.MoveRequested("opening"))
    assert graph.machine.state == "opening"
    assert graph.send(i.MoveRequested("nowhere")) == []

    assert way(graph.send(i.MoveRequested("done"))) == ["done"]


def resumed(graph: GraphDriver, rules: StateGraph, *, now: float) -> GraphMachine:
    """Return the machine of another process that goes on."""
    data = json.loads(json.dumps(graph.machine.to_json(now=graph.now)))
    return GraphMachine(rules.rules(), restored(data, rules.rules()), now=now)


def test_a_resumed_graph_has_its_state_timers_and_events_and_runs_no_body() -> None:
    rules = booking()
    graph = driver(rules)
    graph.begin()
    graph.event("other", id="waits")
    graph.speech("book")
    graph.wait(20)

    machine = resumed(graph, rules, now=1000)

    assert machine.handle(i.Begun(), now=1000) == []
    assert machine.state == "day"
    assert [event.id for event in machine.waiting] == ["waits"]
    assert machine.next_deadline() == 1010
    assert way(machine.handle(i.Tick(), now=1010)) == ["greeting"]


def test_a_resumed_graph_goes_on_after_the_body_that_the_end_of_its_process_cut() -> None:
    rules = StateGraph()
    begin, following = rules.new_state("begin", initial=True), rules.new_state("following")
    begin.body(speak)
    begin.go_to(following)
    graph = driver(rules)
    graph.answers = False
    graph.begin()

    machine = resumed(graph, rules, now=0)

    assert way(machine.handle(i.Begun(), now=0)) == ["following"]


def test_a_resumed_graph_returns_from_a_global_state_whose_body_was_cut() -> None:
    rules = booking()
    graph = driver(rules)
    graph.begin()
    graph.answers = False
    graph.speech("hours")
    graph.answer()
    assert graph.machine.state == "opening"

    machine = resumed(graph, rules, now=0)

    assert way(machine.handle(i.Begun(), now=0)) == ["greeting"]


def test_speech_that_was_being_judged_is_not_in_the_resumed_graph_which_has_not_its_text() -> None:
    rules = booking()
    graph = driver(rules)
    graph.begin()
    graph.answers = False
    graph.speech("book", id="turn")
    graph.speech("book", id="next")
    graph.event("paid", id="paid")

    machine = resumed(graph, rules, now=0)

    assert machine.handle(i.Begun(), now=0) == []
    assert [event.id for event in machine.waiting] == ["paid"]


def test_events_and_requests_that_come_while_a_body_runs_are_bounded_and_changed_data_count_once() -> None:
    rules = booking()
    graph = driver(rules)
    graph.answers = False
    graph.begin()
    graph.speech("book", id="turn")

    effects = [graph.event("x", id=f"n{number}") for number in range(MAX_WAITING + 2)]
    assert effects[-2:] == [[e.EventDropped("n0")], [e.EventDropped("n1")]]
    assert graph.send(i.MoveRequested("done")) == [e.EventDropped("n2")]
    for _ in range(3):
        graph.send(i.DataChanged())
    assert len(graph.machine.to_json(now=0)["arrivals"]) == MAX_WAITING - 1
    assert "turn" in graph.machine.to_judge, "a turn waits for its speech"


def test_data_that_change_often_while_a_condition_is_judged_are_judged_once_more() -> None:
    rules = StateGraph()
    one, two = rules.new_state("one", initial=True), rules.new_state("two")
    one.when_condition(yes).go_to(two)
    graph = driver(rules, holds=lambda _state, _index: False)
    graph.answers = False
    graph.begin()
    for _ in range(5):
        graph.send(i.DataChanged())
    graph.answers = True

    graph.send(i.Tick())

    assert len([effect for effect in graph.effects if isinstance(effect, e.Judge)]) == 2


def test_a_state_without_any_intent_asks_no_classifier() -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_no_intent_matched().go_to(two)
    machine = driver(graph)
    machine.begin()

    effects = machine.speech("anything")

    assert way(effects) == ["two"]
    assert not [effect for effect in effects if isinstance(effect, e.Classify)]


def _changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    graph = driver(booking())
    graph.begin()
    graph.speech("book")
    graph.event("other")
    data = graph.machine.to_json(now=0)
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(version=2), "must be of version 1, got 2"),
        (lambda data: data.update(state="gone"), r"saved state of a graph must be one of its states \(day, done"),
        (lambda data: data.update(return_to=3), "saved return_to of a graph must be one of its states"),
        (lambda data: data.update(timers=None), "saved timers of a graph must be a list, got None"),
        (lambda data: data.update(timers=[[7, 1.0]]), r"must be \[transition of 'day', seconds\], got \[7, 1.0\]"),
        (lambda data: data["waiting"][0].pop("kind"), "needs id, kind, name and subject"),
        (lambda data: data["waiting"][0].update(kind="smell"), "has a wrong part"),
    ],
)
def test_a_saved_state_of_another_graph_or_shape_is_refused(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    rules = booking().rules()

    with pytest.raises(ConfigurationError, match=message):
        restored(_changed(change), rules)
