"""A conversation graph in a session, in virtual time, on both pipelines: a booking."""

from __future__ import annotations

import html
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness, booking, graph_harness, way
from kit.telemetry import Watching
from vivavoce.agents import AgentSession
from vivavoce.agents.events import GraphMoved
from vivavoce.agents.graphs import GraphEvent
from vivavoce.agents.reports.page import render
from vivavoce.agents.testing import ScriptedLLM, SessionHarness

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


@BOTH
def test_a_call_follows_its_graph(kind: type[SessionHarness]) -> None:
    llm = ScriptedLLM("For which day?", "Noted.")
    watching = Watching()
    harness = graph_harness(booking(), llm, kind=kind, telemetry=watching.telemetry)
    harness.caller.says("I want to book a table", 3.0, 4.0)
    harness.caller.says("monday please", 7.0, 8.0)
    harness.caller.says("goodbye", 11.0, 12.0)
    harness.run(until=16.0)

    harness.expect_history(
        ("assistant", "Hello. A table for when?"),
        ("user", "I want to book a table"),
        ("assistant", "For which day?"),
        ("user", "monday please"),
        ("assistant", "Noted."),
        ("user", "goodbye"),
        ("assistant", "See you."),
    )
    assert way(harness) == ["greeting", "details", "done"]
    assert [request.instructions for request in llm.requests] == ["You take bookings.\n\nAsk for the day."] * 2
    turns = [turn for turn in harness.session.turns if turn.kind == "turn"]
    assert [turn.graph_state for turn in turns] == ["details", "details", "done"]
    assert turns[0].transitions == ("'greeting', when_intent_matched('book') → 'details'",)
    assert all(turn.outcome == "completed" and turn.e2e_latency is not None for turn in turns)
    for turn in turns:
        assert sum(stage.seconds for stage in turn.stages) == pytest.approx(turn.e2e_latency, abs=0.001)
    watching.check()
    states = [(span.attributes or {})["vivavoce.turn.graph_state"] for span in watching.of("turn")]
    assert states == ["details", "details", "done"]
    page = html.unescape(render(harness.session.report()))
    for turn in turns:
        assert "; ".join([turn.graph_state, *turn.transitions]) in page


@BOTH
def test_an_interruption_undoes_nothing_and_closes_the_body(kind: type[SessionHarness]) -> None:
    graph, closed = booking(), []
    done = graph.states[-1]

    @done.body
    async def talk(session: AgentSession[Any]) -> AsyncIterator[str]:
        try:
            for _ in range(50):
                yield "See you, and thank you very much for your call today. "
                await anyio.sleep(0.5)
        finally:
            closed.append(True)

    done.when_event("more").go_to(done)
    harness = graph_harness(graph, ScriptedLLM("For which day?", "You are welcome."), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("goodbye", 7.0, 8.0)
    harness.caller.says("thank you very much", 10.0, 11.5)
    harness.run(until=16.0)

    assert way(harness) == ["greeting", "details", "done"]
    assert closed
    assert [turn.outcome for turn in harness.session.turns] == ["completed", "completed", "interrupted", "completed"]
    assert harness.messages[-1] == ("assistant", "You are welcome.")


@BOTH
def test_a_merge_undoes_the_move_of_its_turn(kind: type[SessionHarness]) -> None:
    llm = ScriptedLLM("For which day?", "For which day?", delay=1.5)
    harness = graph_harness(booking(), llm, kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("rather tell me the opening hours", 4.8, 6.0)
    harness.run(until=14.0)

    moves = [(event.state, event.reason) for event in harness.recording.of(GraphMoved)]
    assert moves == [
        ("greeting", "begin"),
        ("details", "transition"),
        ("greeting", "undo"),
        ("details", "transition"),
    ]
    assert harness.messages[1] == ("user", "book a table rather tell me the opening hours")


@BOTH
def test_a_body_that_ran_ends_merging(kind: type[SessionHarness]) -> None:
    graph = booking()
    details = graph.states[1]

    @details.body
    async def look_up(session: AgentSession[Any]) -> AsyncIterator[str]:
        await anyio.sleep(1.5)
        yield "For which day?"

    harness = graph_harness(graph, ScriptedLLM("Sure."), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("for my friends", 4.8, 6.0)
    harness.run(until=14.0)

    assert way(harness) == ["greeting", "details"]
    assert [text for role, text in harness.messages if role == "user"] == ["book a table", "for my friends"]


@BOTH
def test_a_timer_moves_by_itself_and_its_body_speaks(kind: type[SessionHarness]) -> None:
    harness = graph_harness(booking(), ScriptedLLM("For which day?"), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.run(until=30.0)

    last = harness.recording.of(GraphMoved)[-1]
    assert (last.state, last.transition) == ("done", "'details', after(20) → 'done'")
    assert last.at == pytest.approx(24.4, abs=0.1)
    assert harness.messages[-1] == ("assistant", "See you.")


@BOTH
def test_speech_that_no_transition_takes_runs_the_fallback_body(kind: type[SessionHarness]) -> None:
    graph = booking()

    async def pardon(session: AgentSession[Any]) -> AsyncIterator[str]:
        assert session.graph.event == GraphEvent("user_turn", "bananas")
        yield "Pardon?"

    graph.states[0].set_fallback_body(pardon)
    llm = ScriptedLLM()
    harness = graph_harness(graph, llm, kind=kind)
    harness.caller.says("bananas", 3.0, 4.0)
    harness.run(until=8.0)

    assert harness.messages[-1] == ("assistant", "Pardon?")
    assert llm.requests == []


@BOTH
def test_the_fallback_body_of_the_graph_serves_the_states_without_one_of_their_own(kind: type[SessionHarness]) -> None:
    def words(text: str) -> Callable[[AgentSession[Any]], AsyncIterator[str]]:
        async def body(session: AgentSession[Any]) -> AsyncIterator[str]:
            yield text

        return body

    for own, answer in ((None, "All states."), ("This one.", "This one.")):
        graph = booking()
        graph.set_fallback_body(words("Replaced."))
        graph.set_fallback_body(words("All states."))
        if own is not None:
            graph.states[0].set_fallback_body(words(own))
        later = graph.new_state("later")
        assert later.on_no_match is graph.states[1].on_no_match
        graph.states[1].when_event("key_pressed").go_to(later)
        later.when_event("closed").go_to(graph.states[0])
        harness = graph_harness(graph, ScriptedLLM(), kind=kind)
        harness.caller.says("bananas", 3.0, 4.0)
        harness.run(until=8.0)
        assert harness.messages[-1] == ("assistant", answer)


@BOTH
def test_a_global_state_answers_and_the_conversation_returns(kind: type[SessionHarness]) -> None:
    harness = graph_harness(booking(), ScriptedLLM("For which day?"), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("when are you open", 7.0, 8.0)
    harness.run(until=12.0)

    assert way(harness) == ["greeting", "details", "opening", "details"]
    assert harness.messages[-1] == ("assistant", "We are open from five.")
    assert harness.session.turns[-1].transitions == ("set_global('hours') → 'opening'",)


@BOTH
@pytest.mark.parametrize("end", ["", " ", "\n"])
def test_texts_of_two_bodies_in_one_turn_are_apart_and_pieces_of_one_are_joined(
    kind: type[SessionHarness], end: str
) -> None:
    graph = booking()
    details, opening = graph.states[1], graph.states[2]

    @opening.body
    async def tell(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "From fi"
        yield f"ve.{end}"

    @details.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "For which "
        yield "day?"

    harness = graph_harness(graph, ScriptedLLM(), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("when are you open", 7.0, 8.0)
    harness.run(until=14.0)

    assert way(harness) == ["greeting", "details", "opening", "details"]
    assert harness.messages[-1] == ("assistant", f"From five.{end or ' '}For which day?")
    assert harness.messages[2] == ("assistant", "For which day?")


@BOTH
def test_a_body_that_raises_takes_when_failed(kind: type[SessionHarness]) -> None:
    graph = booking()
    details, done = graph.states[1], graph.states[-1]

    @details.body
    def broken(session: AgentSession[Any]) -> None:
        raise RuntimeError("the calendar is down")

    details.when_failed().go_to(done)
    harness = graph_harness(graph, ScriptedLLM(), kind=kind)
    harness.expects_error("graph", contains="the calendar is down")
    harness.caller.says("book a table", 3.0, 4.0)
    harness.run(until=8.0)

    assert way(harness) == ["greeting", "details", "done"]
    assert harness.messages[-1] == ("assistant", "See you.")


@BOTH
def test_a_resumed_session_keeps_state_and_timers_and_runs_no_body_again(kind: type[SessionHarness]) -> None:
    first = graph_harness(booking(), ScriptedLLM("For which day?"), kind=kind)
    first.caller.says("book a table", 3.0, 4.0)
    taken: list[Any] = []

    async def take(harness: SessionHarness) -> None:
        await harness.until(14.4)
        taken.append(json.loads(json.dumps(harness.session.snapshot())))

    first.run(take, until=15.0)
    second = graph_harness(booking(), ScriptedLLM("Noted."), kind=kind)
    second.resume_from = taken[0]
    second.caller.says("monday", 2.0, 3.0)
    second.run(until=14.0)

    moves = second.recording.of(GraphMoved)
    assert [(move.old, move.state) for move in moves] == [("details", "done")]
    assert moves[0].at == pytest.approx(10.0, abs=0.2)
    assert [text for role, text in second.messages if role == "assistant"][-2:] == ["Noted.", "See you."]
