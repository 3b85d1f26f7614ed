"""Who judges the intents of a graph in a session: the answering model, or a classifier before it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from kit.graphs import RealtimeHarness, booking, graph_harness, way
from vivavoce.agents import Agent, AgentOverrides, AgentSession, SessionOptions
from vivavoce.agents.agent import Generate
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.graphs import GraphOptions, IntentClassifier, IntentMatch, PatternIntents, State, StateGraph
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    SessionHarness,
    ToolCall,
    VirtualClock,
)
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

REMOTE = RealtimeOptions(turn_detection="remote")
BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


class Booking(BaseModel):
    """A table."""

    people: int
    day: str


def chosen_by_model() -> StateGraph:
    """A graph whose intents the answering model chooses."""
    graph = StateGraph()
    book = graph.new_intent("book", ["a table please"], slots=Booking, description="a table for a day")
    bye = graph.new_intent("bye")
    greeting = graph.new_state("greeting", initial=True)
    details = graph.new_state("details", instructions="Confirm the table.")
    done = graph.new_state("done")

    @done.body
    async def leave(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "See you."

    greeting.when_intent_matched(book).go_to(details)
    details.when_intent_matched(bye).go_to(done)
    return graph


def chooses(name: str, **slots: object) -> list[Any]:
    """A step of the model that chooses an intent."""
    arguments = json.dumps({"slots": slots} if slots else {})
    return [ToolCall(call_id=f"call_{name}", name=f"intent_{name}", arguments=arguments)]


@BOTH
def test_the_answering_model_chooses_an_intent_and_answers_by_the_new_instructions(kind: type[SessionHarness]) -> None:
    llm = ScriptedLLM(chooses("book", people=2, day="monday"), "Two on monday.", chooses("bye"))
    harness = graph_harness(chosen_by_model(), llm, kind=kind)
    harness.caller.says("a table for two on monday", 1.0, 2.0)
    harness.caller.says("goodbye", 5.0, 6.0)

    async def look(harness: SessionHarness) -> None:
        await harness.until(4.5)
        intent = harness.session.graph.intent
        assert intent is not None
        assert (intent.name, intent.slots) == ("book", Booking(people=2, day="monday"))

    harness.run(look, until=10.0)

    assert way(harness) == ["greeting", "details", "done"]
    asked = [(request.instructions, [tool.name for tool in request.tools]) for request in llm.requests]
    assert asked == [
        ("You take bookings.", ["intent_book"]),
        ("You take bookings.\n\nConfirm the table.", ["intent_bye"]),
        ("You take bookings.\n\nConfirm the table.", ["intent_bye"]),
    ], "a body that answered needs no further step of the model"
    assert [text for role, text in harness.messages if role == "assistant"] == ["Two on monday.", "See you."]
    turns = [turn for turn in harness.session.turns if turn.kind == "turn"]
    assert turns[0].transitions == ("'greeting', when_intent_matched('book') → 'details'",)


def test_a_server_that_decides_turns_works_with_the_model_s_choice_only() -> None:
    def session(graph: StateGraph) -> SessionHarness:
        options = SessionOptions(graph=GraphOptions(graph))
        return SessionHarness(Agent("Help."), model=ScriptedRealtimeModel(), options=options)

    session(chosen_by_model()).run(until=0.5)
    with pytest.raises(CapabilityError, match="judges speech"):
        session(booking()).run(until=0.5)


def hears_itself(*script: Any, graph: StateGraph) -> SessionHarness:
    """A session with a model whose transcripts may come after its answers, in turns that the session decides."""
    model = ScriptedRealtimeModel(*script, capabilities=RealtimeCapabilities(turn_detection=frozenset({"local"})))
    return SessionHarness(Agent("Help."), model=model, options=SessionOptions(graph=GraphOptions(graph)))


def test_words_that_may_come_after_the_answer_are_refused_where_they_are_to_be_judged_before() -> None:
    with pytest.raises(CapabilityError, match="judges speech before the answer.*give it an stt"):
        hears_itself(graph=booking()).run(until=0.5)


def test_a_turn_whose_words_come_after_the_model_s_choice_names_state_and_transition() -> None:
    harness = hears_itself(chooses("book", people=2, day="monday"), "Two on monday.", "Fine.", graph=chosen_by_model())
    harness.caller.says("a table for two on monday", 1.0, 2.0, final_at=4.0)
    harness.caller.says("thank you", 6.0, 6.5, final_at=8.0)
    harness.run(until=9.0)

    assert way(harness) == ["greeting", "details"]
    assert [(turn.graph_state, turn.transitions) for turn in harness.session.turns] == [
        ("details", ("'greeting', when_intent_matched('book') → 'details'",)),
        ("details", ()),
    ]


def _of_turns(one: State, two: State) -> None:
    one.when_event("user_turn").go_to(two)


def _of_all(one: State, two: State) -> None:
    one.when_event().go_to(two)


def _without_intent(one: State, two: State) -> None:
    one.when_no_intent_matched().go_to(two)


def _with_fallback(one: State, two: State) -> None:
    one.when_event("x").go_to(two)
    one.set_fallback_body(lambda session: None)


@pytest.mark.parametrize("judges", [_of_turns, _of_all, _without_intent, _with_fallback])
def test_a_state_that_judges_speech_needs_turns_that_the_session_decides(
    judges: Callable[[State, State], None],
) -> None:
    graph = StateGraph(PatternIntents())
    judges(graph.new_state("one", initial=True), graph.new_state("two"))
    options = SessionOptions(graph=GraphOptions(graph))
    with pytest.raises(CapabilityError, match="judges speech"):
        SessionHarness(Agent("Help."), model=ScriptedRealtimeModel(), options=options).run(until=0.5)
    graph_harness(graph).run(until=0.5)


def test_a_change_to_a_server_that_decides_turns_is_refused_too() -> None:
    harness = graph_harness(booking())

    async def act(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError, match="judges speech"):
            _ = harness.session.update_pipeline(RealtimePipeline(ScriptedRealtimeModel(), options=REMOTE))

    harness.run(act)


def without_model() -> CascadingPipeline:
    """A cascade that hears and speaks, and has no model."""
    return CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS())


def session_of(graph: StateGraph, pipeline: Pipeline | None, agent: Agent | None = None) -> AgentSession[Any]:
    """A session that follows the graph; it is not started."""
    options = SessionOptions(graph=GraphOptions(graph), clock=VirtualClock())
    return AgentSession(agent or Agent("Help."), pipeline, options=options)


NEEDS_MODEL = (
    r"cascading lacks the capability 'a graph whose intents the model chooses': in the states 'greeting', 'details' "
    r"ModelIntents\(\) has it choose; give the pipeline an llm, or the graph a classifier that needs none: "
    r"StateGraph\(PatternIntents\(\)\)"
)


def test_intents_that_the_model_chooses_are_refused_where_there_is_no_model() -> None:
    with pytest.raises(CapabilityError, match=NEEDS_MODEL):
        session_of(chosen_by_model(), without_model())
    with pytest.raises(CapabilityError, match=NEEDS_MODEL):
        session_of(chosen_by_model(), RealtimePipeline(ScriptedRealtimeModel(), fallback=without_model()))


def test_a_graph_that_leaves_no_choice_to_the_model_needs_none() -> None:
    session_of(booking(), without_model())
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_event("key_pressed").go_to(two)
    session_of(graph, without_model())


def test_states_without_a_fallback_body_and_without_a_model_are_named_when_the_session_is_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph = StateGraph(PatternIntents())
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
    one.when_intent_matched(graph.new_intent("go", ["go on"])).go_to(two)
    two.when_event().go_to(three)
    three.set_fallback_body(lambda session: None)
    for _ in range(3):  # calls share the graph
        session_of(graph, without_model())
    assert [record.getMessage() for record in caplog.records] == [
        "The conversation graph: words that no transition takes get no answer in 'one', without a fallback body and "
        "without a model, and max_errors such turns in a row end the call; give each of them set_fallback_body(f), "
        "or the pipeline an llm"
    ]
    caplog.clear()
    session_of(graph, CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS()))
    session_of(graph, without_model(), Books("Help."))
    assert caplog.records == []
    one.set_fallback_body(lambda session: None)
    session_of(graph, without_model())
    assert caplog.records == []


@pytest.mark.parametrize(
    ("pipeline", "is_named"),
    [
        (None, True),  # of texts alone
        (RealtimePipeline(ScriptedRealtimeModel(), fallback=CascadingPipeline(tts=ScriptedTTS())), False),
    ],
    ids=["texts alone", "a fallback that hears nothing"],
)
def test_states_that_answer_no_words_are_named_where_words_may_come(
    pipeline: Pipeline | None, is_named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    graph = StateGraph(PatternIntents())
    graph.new_state("one", initial=True).when_event("paid").go_to(graph.new_state("two"))
    session_of(graph, pipeline)
    assert ["get no answer in 'one', 'two'" in record.getMessage() for record in caplog.records] == [True] * is_named


def test_the_model_of_an_agent_chooses_too() -> None:
    clever = Agent("Help.", overrides=AgentOverrides(llm=ScriptedLLM()))
    session = session_of(chosen_by_model(), without_model(), clever)
    with pytest.raises(CapabilityError, match=NEEDS_MODEL):
        _ = session.update_agent(Agent("Help."))


class Books(Agent):
    """Chooses the first intent at "table" by itself, and answers without the pipeline's model."""

    async def llm_stage(self, request: GenerateRequest, generate: Generate) -> AsyncGenerator[Any, None]:
        if any(tool.name == "intent_book" for tool in request.tools):
            yield chooses("book", people=2, day="monday")[0]
        else:
            yield "Two on monday."


class Ask(AgentTask[str]):
    """A task that says a word and is over."""

    async def on_enter(self) -> None:
        await self.session.say("One moment.")
        self.complete("done")


def test_an_agent_that_answers_without_the_pipeline_s_model_may_choose_the_intents() -> None:
    stt = ScriptedSTT()
    pipeline = CascadingPipeline(stt=stt, tts=ScriptedTTS(), vad=ScriptedVAD())
    options = SessionOptions(graph=GraphOptions(chosen_by_model()))
    harness = SessionHarness(Books("Help."), stt=stt, pipeline=pipeline, options=options)
    harness.caller.says("a table for two on monday", 1.0, 2.0)
    harness.run(until=6.0)

    assert way(harness) == ["greeting", "details"]
    assert harness.messages[-1] == ("assistant", "Two on monday.")


def test_only_the_agent_that_follows_the_graph_has_to_choose_also_while_its_task_has_the_conversation() -> None:
    async def act(harness: SessionHarness) -> None:
        class Change(Ask):
            async def on_enter(self) -> None:
                with refusal:
                    _ = harness.session.update_pipeline(without_model())
                await super().on_enter()

        await harness.session.update_pipeline(without_model())
        assert await harness.session.run_task(Ask("Wait.", overrides=AgentOverrides(tts=ScriptedTTS()))) == "done"
        refusal: AbstractContextManager[Any] = nullcontext()
        assert await harness.session.run_task(Change("Wait.")) == "done"
        refusal = pytest.raises(CapabilityError, match=NEEDS_MODEL)
        with refusal:
            _ = harness.session.update_agent(Agent("Help."))
        await harness.session.update_agent(Agent("Help.", overrides=AgentOverrides(llm=ScriptedLLM())))
        assert await harness.session.run_task(Change("Wait.")) == "done"

    graph_harness(chosen_by_model(), agent=Books("Help.")).run(act)


def test_a_change_to_a_pipeline_without_the_model_that_chooses_is_refused_too() -> None:
    async def act(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError, match=NEEDS_MODEL):
            _ = harness.session.update_pipeline(without_model())

    graph_harness(chosen_by_model()).run(act)


def test_a_turn_that_neither_a_body_nor_a_model_can_answer_says_what_answers_in_a_graph() -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("x", ["something else"])).go_to(two)
    stt = ScriptedSTT()
    pipeline = CascadingPipeline(stt=stt, tts=ScriptedTTS(), vad=ScriptedVAD())
    options = SessionOptions(graph=GraphOptions(graph))
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=options)
    harness.expects_error("llm")
    harness.caller.says("hello there", 1.0, 2.0)
    harness.run(until=5.0)

    (error,) = harness.recording.of(ErrorOccurred)
    assert str(error.error).endswith(
        "give CascadingPipeline an llm, the session a flow, or its graph PatternIntents(), a body for each state and "
        "fallback bodies"
    )


class Failing(IntentClassifier):
    """Raises, or hangs."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs

    async def classify(self, text: str, intents: Any, history: Any) -> IntentMatch | None:
        if self.hangs:
            await anyio.sleep(60)
        raise RuntimeError("no idea")


@pytest.mark.parametrize("hangs", [False, True], ids=["raises", "hangs"])
def test_a_classifier_that_fails_leaves_the_answer_to_the_model(hangs: bool) -> None:
    graph = StateGraph(Failing(hangs=hangs))
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("x")).go_to(two)
    harness = graph_harness(graph, ScriptedLLM("I see."))
    harness.expects_error("graph")
    harness.caller.says("hello there", 1.0, 2.0)
    harness.run(until=16.0)

    assert way(harness) == ["one"]
    assert harness.messages[-1] == ("assistant", "I see.")


@pytest.mark.parametrize("judged", [False, True], ids=["by the model", "by a classifier"])
def test_no_answer_begins_ahead_where_a_classifier_judges(judged: bool) -> None:
    graph = StateGraph(PatternIntents() if judged else None)
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("x", ["something else"])).go_to(two)
    llm = ScriptedLLM("I see.", "I see.", delay=0.2)
    harness = graph_harness(graph, llm)
    harness.preemptive = True
    harness.caller.says("hello there", 1.0, 2.0)
    harness.run(until=6.0)

    assert [turn.preemptive for turn in harness.session.turns] == [not judged]
    assert len(llm.requests) == 1


def test_each_intent_has_a_tool_of_its_own_whatever_the_letters_of_its_name() -> None:
    graph = StateGraph()
    hall, *others = (graph.new_state(name, initial=name == "hall") for name in ("hall", "one", "two", "three", "four"))
    for state, name in zip(others, ("予約", "取消", "book a table", "book-a table"), strict=True):
        hall.when_intent_matched(graph.new_intent(name)).go_to(state)
    llm = ScriptedLLM([ToolCall(call_id="call_1", name="intent___2", arguments="{}")], "Gone.")
    harness = graph_harness(graph, llm)
    harness.caller.says("取消", 1.0, 2.0)
    harness.run(until=6.0)

    names = ["intent__", "intent___2", "intent_book_a_table", "intent_book-a_table"]
    assert [tool.name for tool in llm.requests[0].tools] == names
    assert way(harness) == ["hall", "two"]
