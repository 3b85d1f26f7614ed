"""Graphs that move in a circle without waiting, and problems that come again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness, graph_harness, way
from vivavoce.agents import AgentSession
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.graphs import GraphEvent, PatternIntents, StateGraph
from vivavoce.agents.testing import SessionHarness

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])
Step = Callable[[AgentSession[Any], str], None]
STOPPED = "one event caused 100 moves; the graph stops in the state"


def ask_to_move(session: AgentSession[Any], target: str) -> None:
    session.graph.move(target)


def send_event(session: AgentSession[Any], target: str) -> None:
    session.graph.receive_event(GraphEvent(f"to {target}"))


def change_data(session: AgentSession[Any], target: str) -> None:
    session.memory.private.set("target", target)


def circle(step: Step, *, is_plain: bool = False, wait: float = 0.0) -> StateGraph:
    """Two states whose bodies each have the graph move to the other one; a third one for the event "out"."""
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    out = graph.new_state("out")
    for state, other in ((one, two), (two, one)):

        def act(session: AgentSession[Any], target: str = other.name) -> None:
            step(session, target)

        async def wait_and_act(session: AgentSession[Any], target: str = other.name) -> None:
            if wait:
                await anyio.sleep(wait)
            step(session, target)

        state.body(act if is_plain else wait_and_act)
        state.when_event(f"to {other.name}").go_to(other)
        state.when_event("out").go_to(out)
        if step is change_data:
            state.when_variable_matches_operation("target", str.__eq__, other.name).go_to(other)
    return graph


@BOTH
@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("step", [ask_to_move, send_event, change_data])
def test_bodies_that_move_in_a_circle_are_stopped_after_100_moves_and_the_call_goes_on(
    step: Step, is_plain: bool, kind: type[SessionHarness]
) -> None:
    harness = graph_harness(circle(step, is_plain=is_plain), kind=kind)
    harness.expects_error("graph", contains=STOPPED)

    async def leave(harness: SessionHarness) -> None:
        await harness.until(2.0)
        harness.session.graph.receive_event(GraphEvent("out"))

    harness.run(leave, until=3.0)
    assert way(harness) == [*["one", "two"] * 50, "out"]


def test_a_session_event_that_a_body_causes_continues_the_circle() -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    for state, other in ((one, two), (two, one)):

        @state.body
        async def speak(session: AgentSession[Any]) -> None:
            _ = session.say("Hello.")

        state.when_event("speech_created").go_to(other)
    harness = graph_harness(graph)
    harness.expects_error("graph", contains=STOPPED)
    harness.run(until=0.01)
    assert len(way(harness)) == 100


def test_a_timer_of_no_time_to_speak_of_continues_the_circle() -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.after(0.001).go_to(two)
    two.after(0.001).go_to(one)
    harness = graph_harness(graph)
    harness.expects_error("graph", contains=STOPPED)
    harness.run(until=2.0)
    assert len(way(harness)) == 100


def test_bodies_that_wait_in_a_circle_go_on() -> None:
    harness = graph_harness(circle(ask_to_move, wait=0.1))
    harness.run(until=15.0)
    assert len(way(harness)) > 140


def test_events_of_the_application_are_each_a_cause_of_their_own() -> None:
    graph = StateGraph(PatternIntents())
    one = graph.new_state("one", initial=True)
    one.when_event("again").go_to(one)
    harness = graph_harness(graph)

    async def send(harness: SessionHarness) -> None:
        for _ in range(150):
            harness.session.graph.receive_event(GraphEvent("again"))
            await anyio.sleep(0.001)

    harness.run(send, until=1.0)
    assert len(way(harness)) == 151


def test_a_problem_that_comes_a_thousand_times_is_reported_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_event("go").go_to(two)
    harness = graph_harness(graph)
    harness.expects_error("graph", contains="more than 64 events wait")

    async def send(harness: SessionHarness) -> None:
        for _ in range(1064):
            harness.session.graph.receive_event(GraphEvent("unknown"))
            await anyio.sleep(0.001)

    harness.run(send, until=2.0)
    assert len(harness.recording.of(ErrorOccurred)) == 1
    counted = [record.getMessage() for record in caplog.records if "times" in record.getMessage()]
    assert counted == [
        "The conversation graph: more than 64 events wait for a state that takes them; the oldest is dropped "
        "(1000 times in this call)"
    ]


def test_sessions_that_share_a_graph_log_its_warnings_once(caplog: pytest.LogCaptureFixture) -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    graph.new_state("end").set_global(graph.new_intent("bye", ["goodbye"]))
    one.when_event("go").go_to(two)
    two.when_event("go").go_to(one)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            graph_harness(graph).run(until=0.1)
    messages = [record.getMessage() for record in caplog.records]
    assert messages
    assert len(messages) == len(set(messages))


def test_a_variable_that_is_not_set_matches_nothing() -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_variable_matches_operation("paid", lambda value, target: value == target, None).go_to(two)
    harness = graph_harness(graph)

    async def pay(harness: SessionHarness) -> None:
        await harness.until(1.0)
        assert way(harness) == ["one"]
        harness.session.memory.private.set("paid", None)

    harness.run(pay, until=2.0)
    assert way(harness) == ["one", "two"]
