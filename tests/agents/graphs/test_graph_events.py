"""Transitions of a graph in a session besides intents: tools, data, events; bodies; the wiring of a graph."""

from __future__ import annotations

import json
import operator
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from kit.graphs import RealtimeHarness, booking, graph_harness, way
from vivavoce.agents import Agent, AgentSession, ConversationFlow, RoomOptions, SessionOptions, function_tool
from vivavoce.agents.events import GraphMoved
from vivavoce.agents.graphs import GraphError, GraphEvent, GraphOptions, PatternIntents, StateGraph
from vivavoce.agents.replies import Form
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall, VirtualClock, run_virtual
from vivavoce.agents.transports import FileInputOptions
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ConfigurationError

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


class Guests(BaseModel):
    """A form."""

    count: int


class Desk(Agent):
    """Has a tool."""

    def __init__(self) -> None:
        super().__init__("Help.")

    @function_tool
    async def count(self) -> str:
        "Count a guest."
        private = self.session.memory.private
        number = int(private.get("guests", 0)) + 1
        private.set("guests", number)
        return str(number)


def call(number: int) -> list[Any]:
    """A step of the model that calls the tool."""
    return [ToolCall(call_id=f"call{number}", name="count", arguments="{}")]


@BOTH
def test_a_tool_s_call_moves_before_the_model_s_next_step(kind: type[SessionHarness]) -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two", instructions="Say how many.")
    one.when_tool_called("count").go_to(two)
    llm = ScriptedLLM(call(1), "One guest.")
    harness = graph_harness(graph, llm, agent=Desk(), kind=kind)
    harness.caller.says("a guest", 1.0, 2.0)
    harness.run(until=6.0)

    assert [request.instructions for request in llm.requests] == ["Help.", "Help.\n\nSay how many."]
    assert harness.session.turns[-1].graph_state == "two"


def test_private_data_that_change_take_a_transition() -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_variable_matches_operation("guests", lambda value, target: (value or 0) >= target, 2).go_to(two)
    llm = ScriptedLLM(call(1), "One.", call(2), "Two.")
    harness = graph_harness(graph, llm, agent=Desk())
    harness.caller.types("a guest", 1.0)
    harness.caller.types("another one", 4.0)
    harness.run(until=8.0)

    assert [(move.state, round(move.at)) for move in harness.recording.of(GraphMoved)] == [("one", 0), ("two", 4)]


def test_events_of_the_application_and_of_the_session_move() -> None:
    graph = StateGraph()
    one, two, three, four = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three", "four"))
    one.when_event("paid").go_to(two)
    two.when_event("key_pressed").with_condition(lambda session: session.graph.event.data.key == "5").go_to(three)
    three.when_condition(lambda session: session.userdata == "ready").go_to(four)
    harness = graph_harness(graph)
    harness.caller.presses("45", 2.0)

    async def act(harness: SessionHarness) -> None:
        followed = harness.session.graph
        followed.receive_event(GraphEvent("early"))
        followed.receive_event(GraphEvent("paid", 12))
        await harness.until(1.0)
        assert followed.current_state is two
        assert followed.events == (GraphEvent("early"),)
        await harness.until(4.0)
        assert followed.current_state is three
        harness.session.userdata = "ready"
        await harness.until(5.0)
        assert followed.current_state is three
        followed.manage_transition()
        await harness.until(6.0)
        assert followed.current_state is four
        followed.move("one")
        await harness.until(7.0)
        assert followed.current_state is one
        with pytest.raises(ConfigurationError, match="one, two, three, four"):
            followed.move("five")

    harness.run(act)


def test_a_condition_that_raises_does_not_hold_and_a_plain_body_runs_in_a_thread() -> None:
    graph, threads = StateGraph(), []
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))

    @three.body
    def note(session: AgentSession[Any]) -> None:
        threads.append(threading.current_thread())
        _ = session.say("Done.")

    def broken(session: object) -> bool:
        raise RuntimeError("no condition")

    one.when_event("x").with_condition(broken).go_to(two)
    one.when_event("x").with_condition(operator.truth).go_to(three)
    harness = graph_harness(graph)
    harness.expects_error("graph", contains="no condition")

    async def act(harness: SessionHarness) -> None:
        harness.session.graph.receive_event(GraphEvent("x"))

    harness.run(act, until=3.0)
    assert threads
    assert threads[0] is not threading.main_thread()
    assert harness.messages == [("assistant", "Done.")]


def test_a_body_may_await_a_task_and_speak_between_its_pieces() -> None:
    class AskName(AgentTask[str]):
        def __init__(self) -> None:
            super().__init__("Ask for the name.")

        async def on_enter(self) -> None:
            await self.session.say("Your name?")

        @function_tool
        async def given(self, name: str) -> None:
            "The name."
            self.complete(name)

    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(two)

    @two.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Gladly. "
        name = await AskName()
        yield f"Thank you, {name}."
        await session.say("One moment.")
        yield "It is booked."

    given = [ToolCall(call_id="1", name="given", arguments='{"name": "Bob"}')]
    harness = graph_harness(graph, ScriptedLLM(given))
    harness.caller.says("book a table", 1.0, 2.0)
    harness.caller.says("bob", 6.0, 6.6)
    harness.run(until=20.0)

    said = [text for role, text in harness.messages if role == "assistant"]
    assert said == ["Gladly.", "Your name?", "Thank you, Bob.", "One moment.", "It is booked."]


# --- wiring


def test_a_file_and_a_form_of_the_caller_move() -> None:
    graph = StateGraph()
    got: list[Any] = []
    one, two, three, four = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three", "four"))
    one.when_file_received("text/plain").go_to(two)
    two.when_form_submitted("Guests").go_to(three)
    three.when_form_submitted().go_to(four)
    four.when_file_received().go_to(one)

    @two.body
    async def ask(session: AgentSession[Any]) -> None:
        got.append(session.graph.event)
        await session.memory.post(Form(Guests))

    async def main() -> None:
        clock = VirtualClock()
        options = SessionOptions(clock=clock, graph=GraphOptions(graph))
        session = AgentSession(Agent("Help."), SessionHarness(Agent("Help.")).pipeline, options=options)
        room = LocalTransport(clock)
        await session.start(room, room_options=RoomOptions(file_input=FileInputOptions()))
        room.send_file("a.png", b"abc", media_type="image/png")
        room.send_file("a.txt", b"abc", media_type="text/plain")
        await anyio.sleep(1.0)
        assert session.graph.current_state is two
        form = next(part.part_id for part in room.parts if part.part_id)
        room.answer_part(json.dumps({"part": form, "values": {"count": 3}}))
        await anyio.sleep(1.0)
        assert session.graph.current_state is three
        assert session.graph.event == GraphEvent("form_submitted", Guests(count=3))
        assert [event.name for event in session.graph.events] == ["file_received"], "the picture waits"
        await session.memory.post(Form(Guests))
        form = next(part.part_id for part in reversed(room.parts) if part.part_id)
        room.answer_part(json.dumps({"part": form, "values": {"count": 4}}))
        await anyio.sleep(1.0)
        assert session.graph.current_state is one
        assert session.graph.event.data.name == "a.png"
        await session.close()

    run_virtual(main())
    assert [event.data.name for event in got] == ["a.txt"]


def test_a_body_at_the_beginning_may_await_a_task_and_a_long_text_has_no_limit() -> None:
    class AskName(AgentTask[str]):
        async def on_enter(self) -> None:
            await self.session.say("Your name?")
            self.complete("Bob")

    graph = StateGraph()
    state = graph.new_state("only", initial=True)

    @state.body
    async def greet(session: AgentSession[Any]) -> AsyncIterator[str]:
        name = await AskName("Ask for the name.")
        for _ in range(4):
            yield f"Welcome, {name}. "
            await anyio.sleep(4.0)

    harness = graph_harness(graph)
    harness.run(until=24.0)
    said = " ".join(text for _, text in harness.messages)
    assert said == "Your name? Welcome, Bob. Welcome, Bob. Welcome, Bob. Welcome, Bob."


def test_a_snapshot_after_the_close_has_the_graph() -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.after(1.0).go_to(two)
    harness = graph_harness(graph)
    harness.run(until=3.0)
    fresh = harness.session.snapshot()
    assert list(fresh["extensions"]) == ["graph"], "a graph alone begins no memory"
    harness.session.memory.private.set("graph", "of the application")
    taken = harness.session.snapshot()["extensions"]
    assert (taken["graph"]["state"], taken["memory"]["private"]) == ("two", {"graph": "of the application"})

    resumed = graph_harness(graph)
    resumed.resume_from = fresh
    resumed.run(until=1.0)
    assert list(resumed.session.snapshot()["extensions"]) == ["graph"], "nor does a graph that goes on"

    state = fresh["extensions"]["graph"]
    alone = {"id": "call", "private": {}, "positions": {}, "namespaces": {}, "graph": state}
    older = graph_harness(graph)
    older.resume_from = {**fresh, "version": 2, "memory": alone}
    older.run(until=1.0)
    assert list(older.session.snapshot()["extensions"]) == ["graph"]
    assert older.session.snapshot()["extensions"]["graph"]["state"] == "two"

    other = StateGraph()
    other.new_state("elsewhere", initial=True)
    again = graph_harness(other)
    again.resume_from = harness.session.snapshot()
    with pytest.raises(ConfigurationError, match="must be one of its states"):
        again.run(until=1.0)


@BOTH
def test_a_body_that_speaks_while_a_turn_waits_for_it_is_heard_first(kind: type[SessionHarness]) -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(two)

    @one.body
    async def greet(session: AgentSession[Any]) -> None:
        await session.say("Welcome to the corner table, dear caller.")
        await anyio.sleep(2.0)
        await session.say("One moment.")

    @two.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "For when?"

    harness = graph_harness(graph, kind=kind)
    harness.caller.says("book a table", 0.6, 1.8)
    harness.run(until=12.0)
    assert [text for role, text in harness.messages if role == "assistant"][-2:] == ["One moment.", "For when?"]


class Echo(ConversationFlow):
    """A flow."""

    async def run(self, transcript: str) -> AsyncIterator[str]:
        yield transcript


def test_a_graph_beside_a_flow_is_refused() -> None:
    options = SessionOptions(graph=GraphOptions(booking()))
    with pytest.raises(ConfigurationError, match="a conversation graph or a ConversationFlow"):
        SessionHarness(Agent("Help."), options=options, conversation_flow=Echo()).run(until=0.5)
    harness = graph_harness(booking())

    async def act(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match="a conversation graph or a ConversationFlow"):
            harness.session.update_flow(Echo())

    harness.run(act)


def test_a_session_checks_its_graph_and_one_without_says_so() -> None:
    graph = StateGraph()
    graph.new_state("a")
    with pytest.raises(GraphError, match="one state must be initial"):
        graph_harness(graph).run(until=0.5)
    with pytest.raises(ConfigurationError, match="graph must be"):
        GraphOptions("booking")  # type: ignore[arg-type]
    harness = SessionHarness(Agent("Help."))

    async def act(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match="follows no graph"):
            _ = harness.session.graph

    harness.run(act)


def test_the_close_cuts_a_body() -> None:
    graph, ends = StateGraph(), []
    state = graph.new_state("only", initial=True)

    @state.body
    async def wait(session: AgentSession[Any]) -> None:
        try:
            await anyio.sleep(9)
        finally:
            ends.append("cut")

    harness = graph_harness(graph)
    harness.run(until=1.0)
    assert ends == ["cut"]
    assert harness.close_report is not None
    assert harness.close_report.seconds < 1.0


class Clerk(Agent):
    """Notes the caller's age."""

    @function_tool
    async def note(self) -> str:
        "Note."
        self.session.memory.private.set("age", 20)
        return "noted"

    @function_tool
    def note_in_a_thread(self) -> str:
        "Note."
        self.session.memory.private.set("age", 20)
        return "noted"


@pytest.mark.parametrize("tool", ["note", "note_in_a_thread"])
@BOTH
def test_private_data_that_a_tool_changes_move_before_the_model_s_next_step(
    kind: type[SessionHarness], tool: str
) -> None:
    async def is_adult(session: AgentSession[Any]) -> bool:
        await anyio.sleep(0.2)
        return bool(session.memory.private.get("age"))

    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two", instructions="Sell.")
    one.when_condition(is_adult).go_to(two)
    llm = ScriptedLLM([ToolCall(call_id="call_1", name=tool, arguments="{}")], "Here you are.")
    harness = graph_harness(graph, llm, agent=Clerk("Be brief."), kind=kind)
    harness.caller.says("I am twenty", 1.0, 2.0)
    harness.run(until=5.0)

    assert way(harness) == ["one", "two"]
    assert harness.messages[-1] == ("assistant", "Here you are.")
    assert harness.session.turns[-1].graph_state == "two"
    if kind is SessionHarness:
        assert [request.instructions for request in llm.requests] == ["Be brief.", "Be brief.\n\nSell."]


@BOTH
def test_a_body_to_which_a_tool_s_data_lead_is_heard_beside_the_answer(kind: type[SessionHarness]) -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_condition(lambda session: session.memory.private.get("age")).go_to(two)

    @two.body
    async def sell(session: AgentSession[Any]) -> AsyncIterator[str]:
        await session.say("By the way.")
        yield "Wine is cheap."

    llm = ScriptedLLM([ToolCall(call_id="call_1", name="note", arguments="{}")], "Here you are.")
    harness = graph_harness(graph, llm, agent=Clerk("Be brief."), kind=kind)
    harness.caller.says("I am twenty", 1.0, 2.0)
    harness.run(until=8.0)

    assert [text for _, text in harness.messages] == ["I am twenty", "By the way.", "Here you are.", "Wine is cheap."]
    assert way(harness) == ["one", "two"]
