"""How a session judges its graph, in virtual time: the order of things, limits, and conditions that hang."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness, graph_harness, way
from vivavoce.agents import Agent, AgentSession, CompletedTurn, SessionOptions, SpeechLimits, function_tool
from vivavoce.agents.events import ErrorOccurred, GraphMoved
from vivavoce.agents.graphs import (
    GraphEvent,
    GraphOptions,
    Intent,
    IntentClassifier,
    IntentMatch,
    PatternIntents,
    StateGraph,
)
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness, ToolCall
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


class Desk(Agent):
    """Has a tool, greets, and thinks before each answer."""

    @function_tool
    async def count(self) -> str:
        "Count."
        return "1"

    async def on_enter(self) -> None:
        await self.session.say("Hello.")
        await anyio.sleep(1.0)

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        await anyio.sleep(0.3)


# --- events


def test_of_65_events_that_wait_the_oldest_is_dropped_and_reported() -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_event("go").go_to(two)
    two.when_event("news").go_to(one)
    harness = graph_harness(graph)
    harness.expects_error("graph", contains="more than 64 events wait")

    async def act(harness: SessionHarness) -> None:
        followed = harness.session.graph
        news = [GraphEvent("news", number) for number in range(65)]
        for event in news[:64]:
            followed.receive_event(event)
        await harness.until(1.0)
        assert followed.events == tuple(news[:64])
        assert harness.recording.of(ErrorOccurred) == []
        followed.receive_event(news[64])
        await harness.until(2.0)
        assert followed.events == tuple(news[1:])
        (error,) = harness.recording.of(ErrorOccurred)
        assert (error.source, error.is_recovered) == ("graph", True)
        followed.receive_event(GraphEvent("go"))
        await harness.until(3.0)
        assert (followed.event, followed.events) == (news[1], tuple(news[2:]))

    harness.run(act)
    assert way(harness) == ["one", "two", "one"]


def test_an_event_that_moves_without_end_is_stopped_and_reported_and_the_next_one_is_judged() -> None:
    graph = StateGraph()
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
    one.when_event("loop").go_to(two)
    two.when_condition(lambda session: session.graph.event == GraphEvent("loop")).go_to(two)
    two.when_event("stop").go_to(three)
    harness = graph_harness(graph)
    harness.expects_error("graph", contains="one event caused 100 moves; the graph stops in the state 'two'")

    async def act(harness: SessionHarness) -> None:
        for name in ("loop", "stop"):
            harness.session.graph.receive_event(GraphEvent(name))

    harness.run(act, until=2.0)
    assert way(harness) == ["one", *["two"] * 100, "three"]


def test_an_automatic_transition_one_for_an_event_of_a_name_and_one_for_any_event() -> None:
    graph = StateGraph()
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
    one.go_to(two)
    two.when_event(GraphEvent("paid")).go_to(three)
    three.when_event().go_to(one)
    harness = graph_harness(graph)

    async def act(harness: SessionHarness) -> None:
        for name in ("news", "paid"):
            harness.session.graph.receive_event(GraphEvent(name))

    harness.run(act, until=2.0)
    assert way(harness) == ["one", "two", "three", "one", "two"]


# --- turns


class Slow(PatternIntents):
    """Takes 0.4 s."""

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        await anyio.sleep(0.4)
        return await super().classify(text, intents, history)


@BOTH
def test_the_initial_body_runs_behind_on_enter_and_a_turn_is_judged_behind_its_hook(kind: type[SessionHarness]) -> None:
    graph, ran = StateGraph(Slow()), []
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(two)

    @one.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        ran.append([item.content for item in session.history.messages("assistant")])
        yield "For when?"

    harness = graph_harness(graph, ScriptedLLM("Fine."), agent=Desk("Help."), kind=kind)
    harness.caller.says("book a table", 5.0, 6.0)
    harness.run(until=9.0)

    assert ran == [["Hello."]]
    assert [text for _, text in harness.messages] == ["Hello.", "For when?", "book a table", "Fine."]
    stages = [(one.name, one.owner, round(one.seconds, 2)) for one in harness.session.turns[-1].stages]
    at = stages.index(("graph", "user_code", 0.4))
    assert stages[at - 1] == ("hook", "user_code", 0.3)


class Noting(IntentClassifier):
    """Returns a given verdict, and notes the intents that it may choose from."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        self.asked.append([intent.name for intent in intents])
        return IntentMatch("bye", 0.39)


def test_a_classifier_chooses_among_the_intents_of_the_state_and_of_the_globals_and_a_low_score_is_none() -> None:
    classifier = Noting()
    graph = StateGraph(classifier)
    book, bye, hours = (graph.new_intent(name) for name in ("book", "bye", "hours"))
    one, two, three, opening = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three", "x"))
    one.when_intent_matched(bye).go_to(three)
    one.when_no_intent_matched().go_to(two)
    two.when_intent_matched(book).go_to(three)
    opening.set_global(hours)
    harness = graph_harness(graph, ScriptedLLM("Fine.", "Fine."))
    harness.caller.says("goodbye then", 1.0, 2.0)
    harness.caller.says("a table", 5.0, 6.0)
    harness.run(until=9.0)

    assert classifier.asked == [["bye", "hours"], ["book", "hours"]]
    assert way(harness) == ["one", "two"]
    assert harness.session.graph.intent is None


class Wrong(IntentClassifier):
    """Answers by the name alone."""

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> Any:
        return "bye"


class Plain(IntentClassifier):
    """Is not async."""

    def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> Any:
        return IntentMatch("bye")


@pytest.mark.parametrize(
    ("classifier", "words"),
    [
        (Wrong(), "the result of Wrong.classify() must be IntentMatch(…) or None, got 'bye'"),
        (Plain(), "Plain.classify() must be async, got a function that returned"),
    ],
)
def test_a_classifier_that_answers_something_else_than_a_match_is_an_error_with_its_name(
    classifier: IntentClassifier, words: str
) -> None:
    graph = StateGraph(classifier)
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("bye")).go_to(two)
    harness = graph_harness(graph, ScriptedLLM("Fine."))
    harness.expects_error("graph")
    harness.caller.says("goodbye then", 1.0, 2.0)
    harness.run(until=5.0)

    (error,) = harness.recording.of(ErrorOccurred)
    assert str(error.error).startswith(words)
    assert (way(harness), harness.messages[-1]) == (["one"], ("assistant", "Fine."))


def test_a_condition_that_writes_private_data_is_not_judged_again_for_that() -> None:
    judged: list[str] = []

    def counts(session: AgentSession[Any]) -> bool:
        judged.append("counts")
        assert len(judged) < 50, "judged without end"
        session.memory.private.set("count", len(judged))
        return False

    def takes(session: AgentSession[Any]) -> bool:
        judged.append("takes")
        assert session.graph.event is not None
        session.memory.private.set("event", session.graph.event.data)
        return False

    graph = StateGraph()
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
    one.when_condition(counts).go_to(two)
    one.when_event("news").with_condition(takes).go_to(two)
    one.when_variable_matches_operation("event", operator.eq, 2).go_to(three)
    harness = graph_harness(graph)

    async def changes(harness: SessionHarness) -> None:
        await harness.until(1.0)
        assert judged == ["counts"]
        harness.session.memory.private.set("other", 1)
        await harness.until(2.0)
        for number in (1, 2):
            harness.session.graph.receive_event(GraphEvent("news", number))

    harness.run(changes, until=3.0)

    assert judged == ["counts", "counts", "takes", "takes", "counts"], "the condition of an event has another judged"
    assert way(harness) == ["one", "three"]


class Watched(ScriptedRealtimeModel):
    """Notes, at each request, its tool results and the last update of the model."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(*steps, capabilities=RealtimeCapabilities(turn_detection=frozenset({"local"})))
        self.seen: list[tuple[str, list[str], bool]] = []

    def next_step(self, request: GenerateRequest) -> Any:
        """Note, and play the step."""
        instructions, tools = self.connection.record.updates[-1]
        has_result = any(item.type == "function_call_output" for item in request.context.items)
        self.seen.append((instructions, [tool.name for tool in tools], has_result))
        return super().next_step(request)


def test_a_realtime_model_has_the_new_instructions_and_tools_before_the_result_of_the_tool_that_moved() -> None:
    @function_tool
    async def more() -> str:
        "More."
        return "2"

    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two", instructions="Say how many.", tools=[more])
    one.when_tool_called("count").go_to(two)
    model = Watched([ToolCall(call_id="call_1", name="count", arguments="{}")], "One guest.")
    harness = SessionHarness(Desk("Help."), model=model, options=SessionOptions(graph=GraphOptions(graph)))
    harness.caller.says("a guest", 3.0, 4.0)
    harness.run(until=8.0)

    assert model.seen == [("Help.", ["count"], False), ("Help.\n\nSay how many.", ["count", "more"], True)]


# --- conditions and classifiers that hang


@pytest.mark.parametrize(
    ("limit", "answered_at", "moved_at"),
    [(25.0, 45.0, 45.0), (40.0, 50.0, 60.0)],
    ids=["shorter than that of a judgement", "longer"],
)
@BOTH
def test_a_condition_that_hangs_behind_a_body_blocks_neither_the_turn_that_waits_nor_the_graph(
    kind: type[SessionHarness], limit: float, answered_at: float, moved_at: float
) -> None:
    """The limits stand still while the body runs, for 20 s, and count from its end."""
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")

    @one.body
    async def prepare(session: AgentSession[Any]) -> None:
        await anyio.sleep(20.0)

    async def hang(session: AgentSession[Any]) -> bool:
        await anyio.sleep_forever()
        raise AssertionError

    one.when_condition(hang).go_to(two)
    one.when_event("user_turn").with_condition(lambda session: session.current_speech is None).go_to(two)
    one.when_event("go").go_to(two)
    llm = ScriptedLLM("Fine.")
    harness = graph_harness(graph, llm, kind=kind, speech=SpeechLimits(hook_timeout=limit))
    harness.expects_error("graph", contains=f"did not end within {limit:g} s")
    if limit > 30.0:
        harness.expects_error("graph", contains="did not judge a turn within 30 s")
    harness.caller.says("hello there", 1.0, 2.0)

    async def act(harness: SessionHarness) -> None:
        await harness.until(10.0)
        harness.session.graph.receive_event(GraphEvent("go"))
        await harness.until(answered_at - 1.0)
        assert llm.requests == []
        await harness.until(answered_at + 1.0)
        assert len(llm.requests) == 1

    harness.run(act, until=70.0)

    moves = [(move.state, round(move.at)) for move in harness.recording.of(GraphMoved)]
    assert moves == [("one", 0), ("two", round(moved_at))]


class HangsOnce(PatternIntents):
    """Hangs at its first call."""

    has_hung = False

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        if not self.has_hung:
            self.has_hung = True
            await anyio.sleep_forever()
        return await super().classify(text, intents, history)


class LateOnce(PatternIntents):
    """Answers the first turn 8 s late; the scores tell its answers apart."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[float] = []
        self._left = deque([1.0, 0.9])

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        score = self._left.popleft()
        if score == 1.0:
            await anyio.sleep(8.0)
        self.given.append(score)
        return IntentMatch("book", score)


@BOTH
def test_the_late_answer_about_a_withdrawn_turn_does_not_replace_the_intent(kind: type[SessionHarness]) -> None:
    classifier = LateOnce()
    graph = StateGraph(classifier)
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(two)
    harness = graph_harness(graph, ScriptedLLM("Fine."), kind=kind, speech=SpeechLimits(hook_timeout=20.0))
    harness.caller.says("book a table", 1.0, 2.0)
    harness.caller.says("for my four old friends and me", 2.8, 6.0, interims=[(3.4, "for my four old friends")])
    harness.run(until=20.0)

    assert classifier.given == [0.9, 1.0]
    assert harness.session.graph.intent == IntentMatch("book", 0.9)
    assert way(harness) == ["one", "two"]


@BOTH
def test_a_body_does_not_wait_for_a_classifier_that_hangs_about_a_turn_that_goes_on(kind: type[SessionHarness]) -> None:
    graph = StateGraph(HangsOnce())
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
    one.after(5.0).go_to(two)
    two.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(three)
    one.when_intent_matched(graph.intents[0]).go_to(three)

    @two.body
    async def tell(session: AgentSession[Any]) -> AsyncIterator[str]:
        await anyio.sleep(2.0)
        yield "We close soon."

    harness = graph_harness(graph, ScriptedLLM("Fine."), kind=kind, speech=SpeechLimits(hook_timeout=20.0))
    harness.expects_error("graph", contains="did not end within 20 s")
    harness.caller.says("book a table", 1.0, 2.0)
    harness.caller.says("for my four old friends and me", 2.8, 6.0, interims=[(3.4, "for my four old friends")])
    harness.run(until=30.0)

    assert [(move.state, round(move.at)) for move in harness.recording.of(GraphMoved)][:2] == [
        ("one", 0),
        ("two", 5),
    ]
    assert way(harness)[-1] == "three"
