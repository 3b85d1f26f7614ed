"""Components of an agent are opened when its handoff is asked for: nobody waits in silence while they connect."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentOverrides, CompletedTurn, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
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


def call(second: Clerk, kind: str = "cascade", *answers: Any, first: Agent | None = None) -> SessionHarness:
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


@pytest.mark.parametrize("kind", ["cascade", "realtime"])
@pytest.mark.parametrize("own", [{}, {"tts": ScriptedTTS()}, {"stt": ScriptedSTT(open_delay=2.0)}], ids=list)
def test_a_handoff_behind_a_change_that_opens_slowly_begins_after_it_and_the_caller_is_answered_meanwhile(
    own: dict[str, Any], kind: str
) -> None:
    second = Clerk("second", **own)
    harness = call(second, kind, "First answers.")
    harness.caller.says("hello", 4.0, 4.5)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await harness.until(1.6)
        change = session.update_components(stt=ScriptedSTT(open_delay=9.0))
        await harness.until(1.8)
        handoff = session.update_agent(second)
        await handoff
        assert (change.outcome, handoff.outcome) == ("completed", "completed")

    harness.run(scenario, until=18.0)
    said = ["first here.", "hello", "First answers.", "first leaves.", "second here."]
    assert [text for _, text in harness.messages] == said
    assert silences(harness)[-1] <= VOICE_DELAY


def test_speech_behind_such_a_handoff_keeps_the_change_from_nothing() -> None:
    second = Clerk("second")
    harness = call(second)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        change = session.update_components(stt=ScriptedSTT(open_delay=3.0))
        handoff = session.update_agent(second)
        await session.say("Said by the second.")
        assert (change.outcome, handoff.outcome) == ("completed", "completed")
        assert harness.now < 8.0

    harness.run(scenario)
    assert [text for _, text in harness.messages][-2:] == ["second here.", "Said by the second."]


def test_a_task_that_a_turn_s_hook_awaits_during_a_slow_change_begins_behind_it() -> None:
    class Yes(AgentTask[str]):
        async def on_enter(self) -> None:
            await self.session.say("Really?")
            self.complete("yes")

    class Asking(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text += ", " + await Yes("Ask.", id="yes")

    harness = SessionHarness(Asking("Help."), ScriptedLLM("Fine.", delay=0.1))
    harness.caller.says("order", 1.0, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        change = harness.session.update_components(stt=ScriptedSTT(open_delay=4.0))
        await change
        assert change.outcome == "completed"

    harness.run(scenario, until=9.0)
    assert [text for _, text in harness.messages] == ["order, yes", "Really?", "Fine."]


@pytest.mark.parametrize("is_changing", [False, True], ids=["alone", "behind a slow change"])
@pytest.mark.parametrize("kind", ["cascade", "realtime"])
def test_a_cancelled_task_whose_recogniser_never_opens_holds_nobody_up(kind: str, is_changing: bool) -> None:
    hanging = ScriptedSTT(open_delay=HANG)
    harness = call(Clerk("second"), kind)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await harness.until(2.0)
        if is_changing:
            _ = session.update_components(stt=ScriptedSTT(open_delay=9.0))
        task = AgentTask[str]("Ask.", id="ask", result_type=str, overrides=AgentOverrides(stt=hanging))
        with anyio.move_on_after(0.5):
            await session.run_task(task)
        assert task.outcome == "cancelled"
        await session.say("Never mind.")

    harness.run(scenario, until=5.0)
    assert harness.played[-1].start == pytest.approx(2.5 + VOICE_DELAY, abs=0.05)
    assert all(stream.is_closed for stream in hanging.streams)


@pytest.mark.parametrize("is_bad", [False, True], ids=["opens slowly", "cannot be opened"])
@pytest.mark.parametrize("kind", ["cascade", "realtime"])
def test_after_a_task_with_ears_of_its_own_the_agent_speaks_at_once_and_hears_on(kind: str, is_bad: bool) -> None:
    own, theirs = ScriptedSTT(["hello"], open_delay=4.0), ScriptedSTT(["thanks", "thanks", "thanks"])
    voice, pipelines = ScriptedTTS(), ScriptedTTS()

    class Ask(AgentTask[str]):
        async def on_enter(self) -> None:
            await self.session.say("Which number?")
            self.complete("five")

    if kind == "cascade":
        llm = ScriptedLLM(default="Fine.", delay=0.1)
        harness = SessionHarness(
            Agent("Help."), pipeline=CascadingPipeline(stt=own, llm=llm, tts=pipelines, vad=ScriptedVAD())
        )
    else:
        model = ScriptedRealtimeModel("Fine.", "Fine.", hears=["hello", "hello"], delay=0.1)
        harness = SessionHarness(
            Agent("Help."), model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD(), tts=pipelines, stt=own)
        )
    if is_bad:
        harness.expects_error("pipeline")
    harness.caller.makes_noise(22.0, 22.5)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await harness.until(5.0)
        own.fail_open(*DOWN * is_bad)
        await session.run_task(Ask("Ask.", id="ask", overrides=AgentOverrides(stt=theirs, tts=voice)))
        await session.say("Thank you.")

    harness.run(scenario, until=25.0)
    assert (voice.texts, pipelines.texts[0]) == (["Which number?"], "Thank you.")
    assert silences(harness)[0] <= VOICE_DELAY
    assert harness.messages[-2:] == [("user", "thanks" if is_bad else "hello"), ("assistant", "Fine.")]
    assert len(harness.recording.of(ErrorOccurred)) == is_bad


def test_two_tasks_with_ears_of_their_own_follow_each_other() -> None:
    ears = [ScriptedSTT(["one"], open_delay=1.0), ScriptedSTT(["two"], open_delay=1.0)]

    class Ask(AgentTask[str]):
        @function_tool
        async def give(self, number: str) -> None:
            """Give the number."""
            self.complete(number)

    class Desk(Agent):
        async def on_enter(self) -> None:
            given = [await Ask("Ask.", id=f"ask{n}", overrides=AgentOverrides(stt=ears[n])) for n in range(2)]
            await self.session.say(" and ".join(given))

    def give(number: str) -> list[ToolCall]:
        return [ToolCall(call_id=f"g{number}", name="give", arguments=f'{{"number": "{number}"}}')]

    harness = SessionHarness(Desk("Help."), ScriptedLLM(give("one"), give("two"), "Bye.", delay=0.1))
    harness.stt = ScriptedSTT()
    harness.caller.makes_noise(4.0, 4.5)
    harness.caller.makes_noise(11.0, 11.5)
    harness.run(until=15.0)
    assert [text for _, text in harness.messages] == ["one", "two", "one and two"]


@pytest.mark.parametrize("part", ["tts", "llm"])
def test_a_voice_or_a_model_of_the_new_agent_takes_over_while_the_caller_talks(part: str) -> None:
    component: Any = ScriptedTTS() if part == "tts" else ScriptedLLM("Second answers.", delay=0.1)
    second = Clerk("second", **{part: component})
    harness = call(second, "cascade", *["Second answers."] * (part == "tts"), first=Agent("Help."))
    story = [(3.4 + number * 0.5, "word " * (number + 1)) for number in range(24)]
    harness.caller.says("a very long story", 3.0, 16.0, interims=story)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.2)
        handoff = harness.session.update_agent(second)
        await harness.until(3.5)
        assert harness.session.agent is second
        await handoff
        assert handoff.outcome == "completed"

    harness.run(scenario, until=22.0)
    spoken = component.texts if part == "tts" else harness.tts.texts
    assert spoken[-2:] == ["second here.", "Second answers."]
    assert ("user", "a very long story") in harness.messages


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
        change = session.update_components(tts=voice)
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
