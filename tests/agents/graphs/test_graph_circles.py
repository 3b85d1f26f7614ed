"""Graphs that move in a circle without waiting, and problems that come again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kit.extensions import Look, Looking
from kit.graphs import RealtimeHarness, graph_harness, way
from vivavoce.agents import AgentSession
from vivavoce.agents.events import ErrorOccurred, GraphEventPosted, GraphMoved
from vivavoce.agents.graphs import GraphEvent, PatternIntents, StateGraph
from vivavoce.agents.testing import SessionHarness

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])
Step = Callable[[AgentSession[Any], str], None]
REMEDY = "end the circle of moves, such as by a condition that stops holding"
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
    harness.expects_error("graph", contains=STOPPED).expects_error("graph", contains=REMEDY)

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


@BOTH
def test_a_task_that_a_body_leaves_behind_continues_the_circle(kind: type[SessionHarness]) -> None:
    tasks = set[asyncio.Task[None]]()

    def leave_task(session: AgentSession[Any], target: str) -> None:
        async def move() -> None:
            await anyio.lowlevel.checkpoint()
            session.graph.move(target)

        tasks.add(asyncio.get_running_loop().create_task(move()))

    harness = graph_harness(circle(leave_task), kind=kind)
    harness.expects_error("graph", contains=STOPPED)
    harness.run(until=1.0)
    assert way(harness) == ["one", "two"] * 50


@BOTH
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_handler_of_the_session_s_events_continues_the_circle(is_async: bool, kind: type[SessionHarness]) -> None:
    graph = StateGraph(PatternIntents())
    graph.new_state("one", initial=True).when_event("go").go_to(graph.new_state("two"))
    harness = graph_harness(graph, kind=kind)
    harness.expects_error("graph", contains=STOPPED)

    def move(event: GraphMoved) -> None:
        harness.session.graph.move("two" if event.state == "one" else "one")

    async def move_later(event: GraphMoved) -> None:
        move(event)

    async def begin(harness: SessionHarness) -> None:
        await harness.until(0.1)
        harness.session.on(GraphMoved, move_later if is_async else move)
        harness.session.graph.move("two")

    harness.run(begin, until=1.0)
    assert way(harness) == ["one", *["two", "one"] * 50]


def test_an_event_that_an_extension_posts_for_a_body_continues_the_circle() -> None:
    def post(session: AgentSession[Any], target: str) -> None:
        looking = session.extension(Look)
        assert isinstance(looking, Looking)
        looking.host.context.log.note(GraphEventPosted, event=GraphEvent(f"to {target}"))

    harness = graph_harness(circle(post), extensions=(Look(),))
    harness.expects_error("graph", contains=STOPPED)
    harness.run(until=1.0)
    assert len(way(harness)) == 100


def test_an_event_of_a_body_that_waits_for_the_next_state_continues_the_circle() -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")

    @one.body
    async def send_both(session: AgentSession[Any]) -> None:
        for target in ("one", "two"):  # the first one waits for the state "two"
            send_event(session, target)

    one.when_event("to two").go_to(two)
    two.when_event("to one").go_to(one)
    harness = graph_harness(graph)
    harness.expects_error("graph", contains=STOPPED)
    harness.run(until=1.0)
    assert way(harness) == ["one", "two"] * 50


def test_events_of_the_application_that_wait_are_each_a_cause_of_their_own() -> None:
    graph = StateGraph(PatternIntents())
    closed, ready, done = graph.new_state("closed", initial=True), graph.new_state("ready"), graph.new_state("done")
    closed.when_event("open").go_to(ready)
    ready.when_event("order").go_to(done)
    done.go_to(ready)
    harness = graph_harness(graph)

    async def send(harness: SessionHarness) -> None:
        for name in (*["order"] * 60, "open"):
            harness.session.graph.receive_event(GraphEvent(name))
            await anyio.sleep(0.001)

    harness.run(send, until=1.0)
    assert way(harness) == ["closed", "ready", *["done", "ready"] * 60]


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


def test_a_problem_that_comes_a_thousand_times_is_reported_once_and_counted() -> None:
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
    assert [(error.source, error.is_recovered, error.times) for error in harness.session.report().errors] == [
        ("graph", True, 1000)
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
