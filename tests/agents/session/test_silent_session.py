"""A session without a pipeline has no voice and no model: given texts go out in writing, and everything else works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kit.graphs import way
from vivavoce.agents import Agent, AgentOverrides, AgentSession, ConversationFlow, SessionOptions
from vivavoce.agents.graphs import GraphOptions, PatternIntents, StateGraph
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline, SilentPipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError


def silent(agent: Agent | None = None, **more: Any) -> AgentSession[Any]:
    return AgentSession(agent or Agent("Help."), options=SessionOptions(clock=VirtualClock(), **more))


def said(session: AgentSession[Any]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in session.history.messages()]


def test_it_needs_no_room_and_its_texts_are_said_at_once() -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Welcome.")

    async def test() -> None:
        async with silent(Host("Help.")) as session:
            await session.start()
            await session.say("Your room costs 90 euros.")
            assert said(session) == [("assistant", "Welcome."), ("assistant", "Your room costs 90 euros.")]
            assert VirtualClock().now() == 0.0
            await session.hangup()
            assert (await session.wait_closed()).is_clean

    run_virtual(test())


def test_its_texts_come_out_of_a_text_transport() -> None:
    async def test() -> None:
        chat = TextTransport()
        async with silent() as session:
            await session.start(chat)
            await session.say("Hello.")
            assert (await chat.receive()).text == "Hello."

    run_virtual(test())


def test_a_session_with_a_voice_still_needs_a_room() -> None:
    async def test() -> None:
        session = AgentSession[None](Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))
        with pytest.raises(ConfigurationError, match="needed a job"):
            await session.start()

    run_virtual(test())


def test_a_session_of_a_model_without_ears_and_voice_needs_no_room_either() -> None:
    async def test() -> None:
        pipeline = CascadingPipeline(llm=ScriptedLLM("Friday."))
        async with AgentSession[None](
            Agent("Help."), pipeline, options=SessionOptions(clock=VirtualClock())
        ) as session:
            await session.start()
            await session.reply("Name a day.")
            assert said(session) == [("assistant", "Friday.")]

    run_virtual(test())


def test_a_reply_is_refused_and_a_typed_text_fails_with_the_remedy() -> None:
    harness = SessionHarness(Agent("Help."), pipeline=SilentPipeline())
    harness.caller.types("hello", 1.0)

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError, match=r"'can_reply': give the pipeline an llm, such as CascadingPipeline"):
            _ = harness.session.reply("Greet.")

    harness.run(scenario, until=2.0)
    harness.expect_outcomes("failed")
    assert "give the session a pipeline with an llm" in harness.session.turns[0].error


def test_a_flow_answers_typed_text() -> None:
    class Echo(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            yield f"You wrote: {transcript}"

    harness = SessionHarness(Agent("Help."), pipeline=SilentPipeline(), conversation_flow=Echo())
    harness.caller.types("hello", 1.0)
    harness.run(until=2.0)
    harness.expect_history(("user", "hello"), ("assistant", "You wrote: hello"))


def test_a_graph_answers_by_its_bodies_and_one_that_needs_a_model_is_refused() -> None:
    graph = StateGraph(PatternIntents())
    bye = graph.new_intent("bye", ["goodbye"])
    greeting, done = graph.new_state("greeting", initial=True), graph.new_state("done")

    @greeting.body
    async def greet(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Hello."

    @done.body
    async def leave(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "See you."

    greeting.when_intent_matched(bye).go_to(done)
    harness = SessionHarness(
        Agent("Help."), pipeline=SilentPipeline(), options=SessionOptions(graph=GraphOptions(graph))
    )
    harness.caller.types("goodbye", 1.0)
    harness.run(until=2.0)
    harness.expect_history(("assistant", "Hello."), ("user", "goodbye"), ("assistant", "See you."))
    assert way(harness)[-1] == "done"
    with pytest.raises(CapabilityError, match="a graph whose intents the model chooses"):
        silent(graph=GraphOptions(_chosen_by_the_model()))


def _chosen_by_the_model() -> StateGraph:
    graph = StateGraph()
    first, second = graph.new_state("first", initial=True), graph.new_state("second")
    first.when_intent_matched(graph.new_intent("go on", ["go on"])).go_to(second)
    return graph


def test_it_gets_a_model_by_a_change_or_by_an_agent_and_loses_it_again() -> None:
    harness = SessionHarness(Agent("Help.", id="plain"), pipeline=SilentPipeline())
    clever = Agent("Help.", id="clever", overrides=AgentOverrides(llm=ScriptedLLM("I know.")))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(clever)
        (await harness.user("do you know?")).next_message("I know.")
        await harness.session.update_agent(Agent("Help.", id="plain again"))
        (await harness.user("and you?")).failure(contains="can_reply")
        await harness.session.update_components(llm=ScriptedLLM("Now I do."))
        (await harness.user("and now?")).next_message("Now I do.")

    harness.run(scenario)


def test_a_pipeline_of_none_is_no_pipeline_to_change_to() -> None:
    async def test() -> None:
        async with silent() as session:
            await session.start()
            with pytest.raises(ConfigurationError, match="pipeline must be a Pipeline, got None"):
                _ = session.update_pipeline(None)  # type: ignore[arg-type]  # the mistake under test

    run_virtual(test())
