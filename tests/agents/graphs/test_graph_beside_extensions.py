"""A conversation graph beside other extensions of its session."""

from __future__ import annotations

from typing import Any

import pytest

from kit.extensions import Look, Looking, answering
from kit.graphs import RealtimeHarness, graph_harness, way
from kit.keeping import Keeping
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import GraphEventPosted
from vivavoce.agents.extension.extension import Host
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.agents.graphs import GraphEvent, GraphOptions, PatternIntents, StateGraph
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, SessionHarness

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


def paying() -> StateGraph:
    """From `one` by speech to `two`, and by the event `paid` to `three`."""
    graph = StateGraph(PatternIntents())
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
    go_on = graph.new_intent("go on", ["go on"])
    one.when_intent_matched(go_on).go_to(two)
    two.when_event("paid").go_to(three)
    return graph


def part(harness: SessionHarness) -> Looking:
    looking = harness.session.extension(Look)
    assert isinstance(looking, Looking)
    return looking


@BOTH
def test_another_extension_posts_an_event_for_the_graph(kind: type[SessionHarness]) -> None:
    async def post(host: Host, turn: TurnInHand) -> None:
        host.context.log.note(GraphEventPosted, event=GraphEvent("paid", 12))

    harness = graph_harness(paying(), ScriptedLLM("Fine."), kind=kind, extensions=(Look(post),))
    harness.caller.says("go on", 0.5, 1.5)
    harness.run(until=5.0)
    assert way(harness) == ["one", "two", "three"]
    assert harness.session.graph.event == GraphEvent("paid", 12)
    assert [event.event for event in harness.recording.of(GraphEventPosted)] == [GraphEvent("paid", 12)]


def test_an_event_that_is_posted_without_a_graph_is_an_event_of_the_session_alone() -> None:
    async def post(host: Host, turn: TurnInHand) -> None:
        host.context.log.note(GraphEventPosted, event=GraphEvent("paid"))

    options = SessionOptions(extensions=(Look(post),))
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Fine."), options=options)
    harness.caller.says("go on", 0.5, 1.5)
    harness.run(until=5.0)
    assert len(harness.recording.of(GraphEventPosted)) == 1


@BOTH
def test_the_graph_judges_first_and_an_extension_behind_it_may_answer(kind: type[SessionHarness]) -> None:
    harness = graph_harness(paying(), kind=kind, extensions=(Look(answering("Mine.")),))
    harness.caller.says("go on", 0.5, 1.5)
    harness.run(until=5.0)
    assert way(harness) == ["one", "two"]
    harness.expect_history(("user", "go on"), ("assistant", "Mine."))
    assert harness.session.turns[-1].graph_state == "two"


def test_a_body_that_answers_ends_the_row() -> None:
    graph = paying()

    @graph.states[1].body
    async def tell(session: AgentSession[Any]) -> Any:
        yield "Two."

    harness = graph_harness(graph, extensions=(Look(answering("Mine.")),))
    harness.caller.says("go on", 0.5, 1.5)
    harness.run(until=5.0)
    harness.expect_history(("user", "go on"), ("assistant", "Two."))
    assert part(harness).turns == []


def test_a_graph_may_be_given_among_the_extensions_of_the_application() -> None:
    options = SessionOptions(extensions=(GraphOptions(paying()),))
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Fine."), options=options)
    harness.caller.says("go on", 0.5, 1.5)
    harness.run(until=5.0)
    assert harness.session.graph.current_state is not None
    assert harness.session.graph is harness.session.extension(GraphOptions)


def test_a_turn_that_a_graph_has_taken_by_the_mark_of_an_older_snapshot_is_not_judged_again() -> None:
    store = Keeping()
    first = graph_harness(paying(), ScriptedLLM("Fine.", delay=2.0))
    first.caller.says("go on", 0.5, 1.5)
    with watch_scope(store):
        first.run(until=3.0)
    kept = next(kept for kept in store.kept if kept["open"] and kept["open"]["passed"]["taken_by"] == ["graph"])
    kept["open"]["passed"] = {"instructions": None, "is_judged": True}
    second = graph_harness(paying(), ScriptedLLM("Fine."), agent=Agent("Help.", id=first.session.agent.id))
    second.resume_from = kept
    second.run(until=4.0)
    assert way(second) == []
    second.expect_history(("user", "go on"), ("assistant", "Fine."))
