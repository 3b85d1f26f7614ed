"""A graph in a session in trouble, in virtual time: resumed while it judges, merged turns, hanging bodies, loops."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness, booking, graph_harness, way
from vivavoce.agents import Agent, AgentSession, SpeechLimits, function_tool
from vivavoce.agents.events import ErrorOccurred, GraphMoved
from vivavoce.agents.graphs import GraphEvent, Intent, IntentMatch, PatternIntents, StateGraph
from vivavoce.agents.graphs.trace import replay_graph
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall
from vivavoce.agents.turn.trace.replay import read_trace
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


class Slow(PatternIntents):
    """Takes its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        await anyio.sleep(self.seconds)
        return await super().classify(text, intents, history)


def slow_graph(seconds: float, *, has_body: bool = True) -> StateGraph:
    """Two states, with a slow classifier between them."""
    graph = StateGraph(Slow(seconds))
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(two)
    if has_body:

        @two.body
        async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
            yield "For when?"

    return graph


def taken_at(harness: SessionHarness, at: float) -> dict[str, Any]:
    """Run the harness, and return the snapshot of that time."""
    taken: list[dict[str, Any]] = []

    async def take(harness: SessionHarness) -> None:
        await harness.until(at)
        taken.append(json.loads(json.dumps(harness.session.snapshot())))

    harness.run(take, until=at + 0.1)
    return taken[0]


# --- resumed


@BOTH
def test_a_session_resumed_while_a_classifier_judges_judges_the_turn_again(kind: type[SessionHarness]) -> None:
    first = graph_harness(slow_graph(3.0), ScriptedLLM("Fine."), kind=kind)
    first.caller.says("book a table", 1.0, 2.0)
    taken = taken_at(first, 4.0)

    second = graph_harness(slow_graph(0.1), kind=kind)
    second.resume_from = taken
    second.run(until=6.0)

    assert way(second) == ["two"]
    assert second.messages[-1] == ("assistant", "For when?")


def test_an_event_that_waited_in_the_session_before_is_known_by_its_name_when_it_is_judged() -> None:
    judged: list[GraphEvent | None] = []

    def graph() -> StateGraph:
        made = StateGraph()
        one, two, three = (made.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
        one.after(5).go_to(two)
        two.when_event("paid").go_to(three)
        three.body(lambda session: judged.append(session.graph.event))
        return made

    taken: list[dict[str, Any]] = []

    async def pays(harness: SessionHarness) -> None:
        harness.session.graph.receive_event(GraphEvent("paid", data=7))
        await harness.until(1.0)
        taken.append(json.loads(json.dumps(harness.session.snapshot())))

    graph_harness(graph()).run(pays, until=2.0)
    second = graph_harness(graph())
    second.resume_from = taken[0]
    second.run(until=6.0)

    assert way(second) == ["two", "three"]
    assert judged == [GraphEvent("paid")]


def test_an_effect_that_fails_is_answered_so_that_the_graph_goes_on() -> None:
    first = graph_harness(slow_graph(0.1))
    taken = taken_at(first, 1.0)
    speech = {"id": "speech_1", "kind": "speech", "name": "user_turn", "subject": ""}  # of nobody in the next session
    taken["extensions"]["graph"]["arrivals"].append(speech)

    second = graph_harness(slow_graph(0.1))
    second.expects_error("graph")
    second.resume_from = taken
    second.caller.says("book a table", 1.0, 2.0)
    second.run(until=6.0)

    assert way(second) == ["two"]


class Watch:
    """Follows a session, as a worker's job does: it has a conversation to go on with, and keeps the session's."""

    publishes_turns = False

    def __init__(self, conversation: dict[str, Any] | None = None) -> None:
        self._conversation = conversation
        self.has_conversation = conversation is not None
        self.refusal: ConfigurationError | None = None
        self.kept: list[dict[str, Any]] = []
        self._session: AgentSession[Any] | None = None

    def session_begins(self, session: Any) -> None:
        """Take the session."""
        self._session = session

    async def take_over(self, check: Any) -> Any:
        """Return the conversation, unless the session refuses it; meanwhile an event comes."""
        assert self._session is not None
        self._session.graph.receive_event(GraphEvent("meanwhile"))
        await anyio.sleep(0.5)
        try:
            check(self._conversation)
        except ConfigurationError as error:
            self.refusal = error
            return None
        return self._conversation

    def keeper(self, room: str) -> Any:
        """Return the call that keeps a conversation."""

        async def keep(text: str) -> None:
            self.kept.append(json.loads(text))

        return keep


def test_a_call_whose_graph_has_changed_begins_anew_and_the_old_session_keeps_its_conversation() -> None:
    taken = taken_at(graph_harness(slow_graph(0.1)), 1.0)
    other = StateGraph()
    other.new_state("elsewhere", initial=True)
    harness, watch = graph_harness(other), Watch(taken)

    with watch_scope(watch):
        harness.run(until=1.0)

    assert "must be one of its states" in str(watch.refusal)
    assert way(harness) == ["elsewhere"]


@pytest.mark.parametrize("is_refused", [False, True], ids=["taken over", "refused"])
def test_an_event_that_comes_before_the_conversation_is_taken_over_is_judged_behind_that(
    is_refused: bool, tmp_path: Path
) -> None:
    def graph(name: str) -> StateGraph:
        made = StateGraph()
        one, two = made.new_state(name, initial=True), made.new_state("two")
        one.when_event("meanwhile").go_to(two)
        one.after(9.0).go_to(two)
        return made

    taken = taken_at(graph_harness(graph("else" if is_refused else "one")), 1.0)
    harness = graph_harness(graph("one"), trace_path=tmp_path)
    with watch_scope(Watch(taken)):
        harness.run(until=2.0)

    moves = harness.recording.of(GraphMoved)
    assert [(move.old, move.state) for move in moves] == [*([("", "one")] * is_refused), ("one", "two")]
    trace = read_trace((tmp_path / f"{harness.session.id}.jsonl").read_text().splitlines())
    assert replay_graph(trace) is None
    assert [step.event["is"] for step in trace.graph].count("GraphBegins") == 1


def test_a_move_outside_of_turns_is_kept_for_a_crash() -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.after(2.0).go_to(two)
    harness, watch = graph_harness(graph), Watch()
    states: list[str] = []

    async def look(harness: SessionHarness) -> None:
        await harness.until(4.0)
        states.append(watch.kept[-1]["extensions"]["graph"]["state"])

    with watch_scope(watch):
        harness.run(look, until=5.0)

    assert states == ["two"]


# --- merged turns


@BOTH
def test_a_turn_that_merges_while_it_is_judged_runs_no_body_over_the_caller(kind: type[SessionHarness]) -> None:
    harness = graph_harness(slow_graph(1.5), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("for my four old friends and me", 4.8, 8.0, interims=[(5.4, "for my four old friends")])
    harness.run(until=14.0)

    moves = harness.recording.of(GraphMoved)
    assert [(move.state, move.reason) for move in moves] == [("one", "begin"), ("two", "transition")]
    assert moves[-1].at > 8.0
    assert harness.messages == [
        ("user", "book a table for my four old friends and me"),
        ("assistant", "For when?"),
    ]


@BOTH
def test_a_merge_undoes_the_move_before_a_timer_of_the_new_state(kind: type[SessionHarness]) -> None:
    graph = booking()
    _, details, _, done = graph.states
    details.after(2.0).go_to(done)
    harness = graph_harness(graph, ScriptedLLM("For which day?", "For which day?", delay=1.5), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("for my four old friends and me", 4.8, 8.0, interims=[(5.4, "for my four old friends")])
    harness.run(until=9.5)

    assert [(move.state, move.reason) for move in harness.recording.of(GraphMoved)] == [
        ("greeting", "begin"),
        ("details", "transition"),
        ("greeting", "undo"),
        ("details", "transition"),
    ]


def test_an_answer_that_is_interrupted_while_it_is_judged_moves_nothing() -> None:
    harness = graph_harness(slow_graph(3.0), ScriptedLLM("Fine."))
    harness.caller.says("book a table", 1.0, 2.0)

    async def stop(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.interrupt()

    harness.run(stop, until=9.0)

    assert way(harness) == ["one"]
    assert [text for role, text in harness.messages if role == "assistant"] == []


# --- bodies outside of turns


class AskName(AgentTask[str]):
    """Asks for a name."""

    async def on_enter(self) -> None:
        await self.session.say("Your name?")
        self.complete("Bob")


@BOTH
def test_a_body_outside_of_turns_may_await_its_speech_and_a_task_between_its_pieces(kind: type[SessionHarness]) -> None:
    graph = StateGraph()
    state = graph.new_state("only", initial=True)

    @state.body
    async def greet(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Hello. "
        await session.say("One moment.")
        yield "You are welcome. "
        name = await AskName("Ask for the name.")
        yield f"Thank you, {name}."

    harness = graph_harness(graph, kind=kind)
    harness.run(until=9.0)

    said = [text.strip() for role, text in harness.messages if role == "assistant"]
    assert said == ["Hello.", "One moment.", "You are welcome.", "Your name?", "Thank you, Bob."]


class Desk(Agent):
    """Has a tool."""

    @function_tool
    async def count(self) -> str:
        "Count."
        return "1"


def calls(name: str) -> list[Any]:
    """A step of the model that calls that tool."""
    return [ToolCall(call_id=f"call_{name}", name=name, arguments="{}")]


@pytest.mark.parametrize("tool", ["count", "intent_book"])
def test_a_tool_of_the_reply_that_a_body_awaits_waits_for_no_body(tool: str) -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_tool_called("count").go_to(two)
    one.when_intent_matched(graph.new_intent("book")).go_to(two)
    ends: list[str | None] = []

    @one.body
    async def ask(session: AgentSession[Any]) -> None:
        handle = session.reply("Count the guests.")
        await handle
        ends.append(handle.outcome)

    harness = graph_harness(graph, ScriptedLLM(calls(tool), "One guest."), agent=Desk("Help."))
    harness.run(until=6.0)

    assert ends == ["completed"]
    assert way(harness) == ["one", "two"]
    assert harness.messages == [("assistant", "One guest.")]


def test_a_tool_of_the_task_that_a_body_awaits_waits_for_no_body() -> None:
    class Count(AgentTask[int]):
        async def on_enter(self) -> None:
            await self.session.reply("Count.")

        @function_tool
        async def count(self) -> str:
            "Count."
            self.complete(1)
            return "1"

    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_tool_called("count").go_to(two)

    @one.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield f"You are {await Count('Count.')}."

    harness = graph_harness(graph, ScriptedLLM(calls("count"), "Thank you."))
    harness.run(until=8.0)

    assert way(harness) == ["one", "two"]
    assert harness.messages[-1] == ("assistant", "You are 1.")


# --- bodies that fail


def test_the_error_of_a_body_is_no_event_of_its_graph_but_other_errors_are() -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_event("error").go_to(two)
    runs: list[str] = []

    @one.body
    async def fail(session: AgentSession[Any]) -> None:
        runs.append("one")
        raise RuntimeError("no calendar")

    harness = graph_harness(graph, ScriptedLLM("Hello."))
    harness.expects_error("graph", contains="no calendar")
    harness.expects_error("handler", contains="no handler")

    async def act(harness: SessionHarness) -> None:
        await harness.until(1.0)
        assert way(harness) == ["one"]

        @harness.session.on("user_state_changed")
        def broken(event: object) -> None:
            raise RuntimeError("no handler")

    harness.caller.says("hello", 2.0, 2.5)
    harness.run(act, until=5.0)

    assert runs == ["one"]
    assert way(harness) == ["one", "two"]


@BOTH
def test_a_body_that_answers_a_turn_has_the_limit_of_hooks_only(kind: type[SessionHarness]) -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(two)

    @two.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        await anyio.sleep(12.0)
        yield "Thank you for waiting. "
        await anyio.sleep(12.0)
        yield "For when?"

    harness = graph_harness(graph, kind=kind, speech=SpeechLimits(hook_timeout=30.0))
    harness.caller.says("book a table", 1.0, 2.0)
    harness.run(until=32.0)

    assert harness.messages[-1] == ("assistant", "Thank you for waiting. For when?")


@BOTH
def test_a_body_that_hangs_in_a_turn_takes_when_failed(kind: type[SessionHarness]) -> None:
    graph = booking()
    _, details, _, done = graph.states

    @details.body
    async def hang(session: AgentSession[Any]) -> None:
        await anyio.sleep_forever()

    details.when_failed().go_to(done)
    harness = graph_harness(graph, kind=kind)
    harness.expects_error("graph", contains="did not end within 10 s")
    harness.caller.says("book a table", 3.0, 4.0)
    harness.run(until=18.0)

    assert way(harness) == ["greeting", "details", "done"]
    assert harness.messages[-1] == ("assistant", "See you.")
    assert harness.session.turns[-1].outcome == "completed"


@pytest.mark.parametrize("returned", ["Hello.", iter(["Hello."])], ids=["text", "iterator"])
def test_a_body_that_returns_its_text_fails_with_the_remedy_and_does_not_go_unheard(returned: object) -> None:
    graph = StateGraph()
    hall, kitchen = graph.new_state("hall", initial=True), graph.new_state("kitchen")
    hall.body(lambda session: returned)
    hall.when_failed().go_to(kitchen)
    harness = graph_harness(graph)
    harness.expects_error("graph")
    harness.run(until=1.0)

    assert way(harness) == ["hall", "kitchen"]
    (error,) = harness.recording.of(ErrorOccurred)
    assert "a body must yield its text in an async def, or speak by session.say(), got" in str(error.error)
