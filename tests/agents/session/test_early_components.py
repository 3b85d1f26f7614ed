"""Components of an agent are opened when its handoff is asked for: nobody waits in silence while they connect."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents import Agent, AgentOverrides, AgentTask, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import HANG, ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""

TRANSFER = [ToolCall(call_id="c", name="transfer", arguments="{}")]
VOICE_DELAY = 0.2
"""Seconds from a text to the first audio of the scripted voice."""
DOWN = [ProviderConnectionError("gone", provider="scripted")] * 3


class Clerk(Agent):
    """Greets and says goodbye, and hands over to `to`."""

    def __init__(self, name: str, to: Agent | None = None, **overrides: Any) -> None:
        super().__init__(f"You are {name}.", id=name, overrides=AgentOverrides(**overrides))
        self.to = to

    @function_tool
    async def transfer(self) -> Agent | None:
        """Hand the caller over."""
        return self.to

    async def on_enter(self) -> None:
        await self.session.say(f"{self.id} here.")

    async def on_exit(self) -> None:
        if self.session.agent_state != "closing":
            await self.session.say(f"{self.id} leaves.")


def silences(harness: SessionHarness) -> list[float]:
    """Return the seconds of silence between one stretch of the agent's audio and the next."""
    played = harness.played
    return [round(then.start - one.start - one.seconds, 2) for one, then in zip(played, played[1:], strict=False)]


def call(second: Clerk, kind: str = "cascade", *answers: Any, first: Clerk | None = None) -> SessionHarness:
    first = first or Clerk("first", second)
    if kind == "cascade":
        return SessionHarness(first, ScriptedLLM(*answers, delay=0.1))
    model = ScriptedRealtimeModel(*answers, hears=["hello", "hello"], delay=0.1)
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), tts=ScriptedTTS(), stt=ScriptedSTT(["hello", "hello"]))
    return SessionHarness(first, model=model, pipeline=pipeline)


@pytest.mark.parametrize("kind", ["cascade", "realtime"])
def test_between_goodbye_and_greeting_there_is_no_silence_while_the_recogniser_connects(kind: str) -> None:
    second = Clerk("second", stt=ScriptedSTT(open_delay=4.0))
    harness = call(second, kind)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(second)

    harness.run(scenario, until=10.0)
    before, *others = silences(harness)
    assert before > 2.0  # the first agent has the conversation meanwhile
    assert others
    assert all(silence <= VOICE_DELAY for silence in others)


@pytest.mark.parametrize("kind", ["cascade", "realtime"])
def test_the_agent_before_answers_the_caller_while_the_recogniser_connects(kind: str) -> None:
    stt = ScriptedSTT(["and now"], open_delay=4.0)
    second = Clerk("second", stt=stt)
    harness = call(second, kind, "First answers.", "Second answers.")
    harness.caller.says("hello", 2.0, 2.5)
    harness.caller.makes_noise(9.0, 9.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(second)

    harness.run(scenario, until=12.0)
    said = ["first here.", "hello", "First answers.", "first leaves.", "second here.", "and now", "Second answers."]
    assert [text for _, text in harness.messages] == said
    assert stt.open_attempts == 1


@BOTH
def test_what_is_asked_for_after_the_handoff_is_said_by_the_new_agent() -> None:
    voice = ScriptedTTS()
    second = Clerk("second", stt=ScriptedSTT(open_delay=4.0), tts=voice)
    harness = call(second)

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.update_agent(second)
        await harness.session.say("Said by the second.")

    harness.run(scenario, until=9.0)
    assert voice.texts == ["second here.", "Said by the second."]


@BOTH
def test_a_tool_s_handoff_waits_for_the_recogniser_and_the_caller_is_answered_meanwhile() -> None:
    second = Clerk("second", stt=ScriptedSTT(open_delay=5.0))
    harness = call(second, "cascade", TRANSFER, "One moment.", "Welcome.")
    harness.caller.says("second please", 2.0, 2.5)
    harness.caller.says("hello", 4.0, 4.5)
    harness.run(until=12.0)
    texts = [text for _, text in harness.messages]
    assert texts[1:] == ["second please", "hello", "One moment.", "first leaves.", "second here."]


@BOTH
def test_a_recogniser_that_cannot_be_opened_costs_no_silence_and_the_agent_goes_on_with_the_one_before() -> None:
    stt = ScriptedSTT(open_delay=1.0)
    stt.fail_open(*DOWN)
    second = Clerk("second", stt=stt)
    harness = call(second, "cascade", "Yes.")
    harness.expects_error("pipeline")
    harness.caller.says("hello", 12.0, 12.5)

    async def scenario(harness: SessionHarness) -> None:
        handoff = harness.session.update_agent(second)
        await handoff
        assert handoff.outcome == "failed"

    harness.run(scenario, until=16.0)
    assert harness.session.agent is second
    assert harness.messages[-2:] == [("user", "hello"), ("assistant", "Yes.")]
    assert len(harness.recording.of(ErrorOccurred)) == 1
    between = silences(harness)[1:-1]
    assert between
    assert all(silence <= VOICE_DELAY for silence in between)


@BOTH
def test_a_recogniser_that_never_opens_is_given_up_within_the_limit_of_a_step() -> None:
    second = Clerk("second", stt=ScriptedSTT(open_delay=HANG))
    harness = call(second)
    harness.expects_error("pipeline")

    async def scenario(harness: SessionHarness) -> None:
        handoff = harness.session.update_agent(second)
        await handoff
        assert handoff.outcome == "failed"

    harness.run(scenario, until=60.0)
    assert harness.session.agent is second


@BOTH
def test_a_recogniser_that_was_opened_and_is_lost_before_the_handoff_is_an_error_and_no_word_is_lost() -> None:
    stt = ScriptedSTT()
    second = Clerk("second", stt=stt)
    harness = call(second, "cascade", "Yes.")
    harness.expects_error("pipeline")
    harness.caller.says("hello", 10.0, 10.5)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        _ = session.say("A long speech that goes on for a while, so that the handoff has to wait for its end.")
        handoff = session.update_agent(second)
        await harness.until(2.5)
        stt.fail_open(*DOWN)
        stt.fail(ProviderConnectionError("gone", provider="scripted"))
        await handoff
        assert handoff.outcome == "failed"

    harness.run(scenario, until=14.0)
    assert harness.messages[-2:] == [("user", "hello"), ("assistant", "Yes.")]


@BOTH
def test_components_that_change_meanwhile_are_taken_and_the_agent_s_are_opened_anew() -> None:
    stt, voice = ScriptedSTT(["and now"]), ScriptedTTS()
    second = Clerk("second", stt=stt)
    harness = call(second, "cascade", "Second answers.")
    harness.caller.makes_noise(9.0, 9.5)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        _ = session.say("A speech for which the handoff has to wait.")
        change = session.change_component(tts=voice)
        await harness.until(1.2)
        handoff = session.update_agent(second)
        await change
        await handoff
        assert handoff.outcome == "completed"

    harness.run(scenario, until=12.0)
    assert voice.texts[-2:] == ["second here.", "Second answers."]
    assert ("user", "and now") in harness.messages
    assert stt.streams[-1].is_closed
    assert all(stream.is_closed for stream in stt.streams)


@BOTH
@pytest.mark.parametrize(("closes_at", "opened"), [(1.5, 0), (4.0, 1)])
def test_a_close_ends_what_was_opened_for_a_handoff(closes_at: float, opened: int) -> None:
    stt = ScriptedSTT(open_delay=1.0)
    second = Clerk("second", stt=stt)
    harness = call(second)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        _ = session.say("A long speech that goes on for a while, so that the handoff has to wait for its end.")
        handoff = session.update_agent(second)
        await harness.until(closes_at)
        assert (stt.open_attempts, len(stt.streams)) == (1, opened)
        await session.close()
        assert handoff.outcome == "cancelled"

    harness.run(scenario)
    assert [stream.is_closed for stream in stt.streams] == [True] * opened


@BOTH
def test_a_task_s_recogniser_is_opened_while_the_agent_goes_on_and_the_agent_s_when_the_task_is_over() -> None:
    own, theirs = ScriptedSTT(["order please", "thank you"], open_delay=3.0), ScriptedSTT(["five"], open_delay=3.0)

    class Ask(AgentTask[str]):
        async def on_enter(self) -> None:
            await self.session.say("Which number?")

        @function_tool
        async def give(self, number: str) -> None:
            """Give the number."""
            self.complete(number)

    class Desk(Agent):
        @function_tool
        async def order(self) -> str:
            """Order something."""
            return await Ask("Ask.", id="ask", overrides=AgentOverrides(stt=theirs))

    order = ToolCall(call_id="o", name="order", arguments="{}")
    give = ToolCall(call_id="g", name="give", arguments='{"number": "five"}')
    harness = SessionHarness(
        Desk("Help.", overrides=AgentOverrides(stt=own)),
        ScriptedLLM([order], "Just a moment.", [give], "Five it is.", "Bye.", delay=0.1),
    )
    harness.caller.makes_noise(4.0, 4.5)
    harness.caller.types("are you there?", 5.6)
    harness.caller.makes_noise(10.0, 10.5)
    harness.caller.makes_noise(17.0, 17.5)
    harness.run(until=22.0)
    assert harness.messages == [
        ("user", "order please"),
        ("user", "are you there?"),
        ("assistant", "Just a moment."),
        ("assistant", "Which number?"),
        ("user", "five"),
        ("assistant", "Five it is."),
        ("user", "thank you"),
        ("assistant", "Bye."),
    ]
