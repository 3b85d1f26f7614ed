"""Scenarios 12 and 13: `interrupt()` at every moment, speeches that meet each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import anyio
import pytest

from vivavoce.agents import Agent, InterruptionOptions, RunContext, SessionOptions, SpeechHandle, function_tool
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedTTS, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall

TEN_WORDS = "one two three four five six seven eight nine ten."
FIVE_WORDS = "alpha beta gamma delta epsilon."


def cascading() -> SessionHarness:
    return SessionHarness(
        Agent("Count."), ScriptedLLM([0.1, TEN_WORDS], [0.1, TEN_WORDS]), tts=ScriptedTTS(emits_words=True)
    )


def realtime() -> SessionHarness:
    return SessionHarness(Agent("Count."), model=ScriptedRealtimeModel([0.3, TEN_WORDS], [0.3, TEN_WORDS]))


both_pipelines = pytest.mark.parametrize("make", [cascading, realtime])


@both_pipelines
def test_interrupting_before_the_first_audio_leaves_no_trace_in_the_history(
    make: Callable[[], SessionHarness],
) -> None:
    harness = make()

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        handle = harness.session.reply("Count to ten.")
        await harness.until(1.25)  # the model has answered or is about to, nothing was heard
        await harness.session.interrupt()
        await handle
        assert handle.outcome == "cancelled"
        assert handle.heard_text == ""
        assert harness.now == pytest.approx(1.25)

    harness.run(scenario, until=4.0)
    harness.expect_states("agent", ("thinking", 1.0), ("idle", 1.25))
    harness.expect_history().expect_played().expect_outcomes("cancelled")


@both_pipelines
def test_interrupting_what_is_heard_fades_and_keeps_what_was_heard(make: Callable[[], SessionHarness]) -> None:
    harness = make()

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        handle = harness.session.reply("Count to ten.")
        await harness.until(2.2)  # 0.9 of it was heard since 1.3
        await harness.session.interrupt()
        assert harness.now == pytest.approx(2.25)  # silent after the fade
        assert handle.outcome == "interrupted"
        assert handle.interrupted
        assert handle.heard_text == "one two three four"
        assert handle.played_seconds == pytest.approx(0.9)

    harness.run(scenario, until=4.0)
    harness.expect_played((1.3, 0.95)).expect_outcomes("interrupted")
    harness.expect_states("agent", ("thinking", 1.0), ("speaking", 1.3), ("idle", 2.2))
    harness.expect_states("user", ("listening", 1.3), ("idle", 2.2))
    harness.expect_history(("assistant", "one two three four"))


@both_pipelines
def test_interrupting_after_the_end_and_twice_is_fine(make: Callable[[], SessionHarness]) -> None:
    harness = make()

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.interrupt()  # nothing to interrupt yet
        await harness.until(1.0)
        first = harness.session.reply("Count to ten.")
        await first
        await harness.session.interrupt()
        assert first.outcome == "completed"
        second = harness.session.reply("Again.")
        await harness.until(4.6)
        _ = harness.session.interrupt()
        await harness.session.interrupt()
        await second
        assert second.outcome == "interrupted"

    harness.run(scenario, until=6.0)
    harness.expect_played((1.3, 2.0), (3.6, 1.05)).expect_outcomes("completed", "interrupted")
    harness.expect_history(("assistant", TEN_WORDS), ("assistant", "one two three four five"))


def test_an_interruption_drops_what_waits_up_to_the_first_protected_speech() -> None:
    harness = cascading()
    handles: list[SpeechHandle] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        session = harness.session
        handles.extend(
            [
                session.say(TEN_WORDS),
                session.say("dropped."),
                session.say(FIVE_WORDS, interruptible=False),
                session.say("kept."),
            ]
        )
        await harness.until(2.0)
        _ = session.interrupt()
        await handles[3]

    harness.run(scenario, until=6.0)
    assert [handle.outcome for handle in handles] == ["interrupted", "cancelled", "completed", "completed"]
    harness.expect_played((1.2, 0.85), (2.2, 1.0), (3.4, 0.2))
    harness.expect_history(("assistant", "one two three four"), ("assistant", FIVE_WORDS), ("assistant", "kept."))


def test_a_protected_speech_is_cut_only_by_force() -> None:
    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say(TEN_WORDS, interruptible=False)
        await harness.until(1.0)
        await harness.session.interrupt()
        handle.interrupt()
        await harness.until(1.4)
        assert handle.outcome is None
        await harness.session.interrupt(force=True)
        assert handle.outcome == "interrupted"

    harness.run(scenario, until=4.0)
    harness.expect_played((0.2, 1.25))
    harness.expect_history(("assistant", "one two three four five six"))


def test_say_during_say_waits_its_turn() -> None:
    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        first, second = harness.session.say(FIVE_WORDS), harness.session.say("omega.")
        urgent = harness.session.say("now.", priority=1)
        await second
        assert [handle.outcome for handle in (first, urgent, second)] == ["completed"] * 3

    harness.run(scenario, until=4.0)
    harness.expect_history(("assistant", FIVE_WORDS), ("assistant", "now."), ("assistant", "omega."))
    harness.expect_played((0.2, 1.0), (1.4, 0.2), (1.8, 0.2))


def test_a_second_reply_is_discarded_queued_or_interrupts_as_asked(caplog: pytest.LogCaptureFixture) -> None:
    harness = SessionHarness(Agent("Count."), ScriptedLLM(TEN_WORDS, "queued.", "cuts in.", delay=0.1))
    handles: list[SpeechHandle] = []

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        handles.append(session.reply("Count."))
        handles.append(session.reply("Count again."))
        handles.append(session.reply("Count later.", when_busy="queue"))
        await harness.until(3.0)
        handles.append(session.reply("Count now.", when_busy="interrupt"))
        await handles[3]

    with caplog.at_level(logging.INFO, logger="vivavoce.agents"):
        harness.run(scenario, until=5.0)
    assert [handle.outcome for handle in handles] == ["completed", "discarded", "completed", "completed"]
    assert "discarded" in caplog.text
    harness.expect_history(("assistant", TEN_WORDS), ("assistant", "queued."), ("assistant", "cuts in."))


def test_a_reply_that_interrupts_cuts_what_is_heard() -> None:
    harness = SessionHarness(Agent("Count."), ScriptedLLM("Now this.", delay=0.1), tts=ScriptedTTS(emits_words=True))

    async def scenario(harness: SessionHarness) -> None:
        said = harness.session.say(TEN_WORDS)
        await harness.until(1.2)
        reply = harness.session.reply("Say something else.", when_busy="interrupt")
        await reply
        assert reply.outcome == "completed"
        assert said.outcome == "interrupted"

    harness.run(scenario, until=4.0)
    harness.expect_played((0.2, 1.05), (1.5, 0.4))
    harness.expect_history(("assistant", "one two three four five"), ("assistant", "Now this."))


def test_a_reply_behind_the_answer_to_a_turn_waits_for_it() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("The answer.", "The afterthought.", delay=0.1))
    harness.caller.says("hello there", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.3)
        afterthought = harness.session.reply("Add something.")
        await afterthought
        assert afterthought.outcome == "completed"

    harness.run(scenario, until=5.0)
    harness.expect_history(("user", "hello there"), ("assistant", "The answer."), ("assistant", "The afterthought."))


def test_a_reply_without_instructions_is_discarded_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        for instructions in ("", "  \n"):
            handle = harness.session.reply(instructions)
            await handle
            assert handle.outcome == "discarded"

    with caplog.at_level(logging.WARNING, logger="vivavoce.agents"):
        harness.run(scenario, until=3.0)
    assert "instructions" in caplog.text
    assert harness.llm.requests == []
    harness.expect_states("agent").expect_history()


def test_instructions_of_a_reply_are_for_this_generation_only() -> None:
    harness = SessionHarness(Agent("Always brief."), ScriptedLLM("First.", "Second.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet the caller.")
        await harness.session.reply("Ask the name.")

    harness.run(scenario)
    first, second = harness.llm.requests
    assert (first.instructions, first.extra_instructions) == ("Always brief.", "Greet the caller.")
    assert second.extra_instructions == "Ask the name."
    assert [message.content for message in second.context.messages()] == ["First."]


class Greeter(Agent):
    async def on_enter(self) -> None:
        handle = self.session.say("Hello and welcome.")
        await handle
        assert handle.heard_text == "Hello and welcome."

    async def on_exit(self) -> None:
        await self.session.say("Good bye.")

    @function_tool
    async def look_up(self, context: RunContext) -> str:
        """Look something up."""
        await context.session.say("One moment.")
        return "found"


def test_start_waits_for_a_greeting_said_on_enter_and_close_for_a_farewell_said_on_exit() -> None:
    harness = SessionHarness(Greeter("Greet."))

    async def scenario(harness: SessionHarness) -> None:
        assert harness.now == pytest.approx(0.8)

    harness.run(scenario, until=2.0)
    harness.expect_played((0.2, 0.6), (2.2, 0.4))
    harness.expect_history(("assistant", "Hello and welcome."), ("assistant", "Good bye."))
    states = [(state, at) for who, state, at in harness.states if who == "agent"]
    assert states == [("starting", 0.0), ("speaking", 0.2), ("idle", 0.8), ("closing", 2.0), ("closed", 2.6)]
    assert harness.close_report is not None
    assert harness.close_report.is_clean


def test_a_speech_made_inside_a_tool_plays_at_once_and_the_answer_follows() -> None:
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = SessionHarness(Greeter("Greet."), ScriptedLLM([call], "It is here.", delay=0.1))
    harness.caller.says("where is it", 1.5, 2.5)
    harness.run(until=6.0)
    harness.expect_tools(("look_up", "found"))
    # Greeting; committed at 2.9, the tool speaks 3.2 to 3.6, the model answers 0.1 + 0.2 later.
    harness.expect_played((0.2, 0.6), (3.2, 0.4), (3.9, 0.6), (6.2, 0.4))
    harness.expect_outcomes("completed", "completed", "completed", "completed")


def test_the_fade_of_an_interruption_is_an_option() -> None:
    options = SessionOptions(interruption=InterruptionOptions(fade=0.0))
    harness = SessionHarness(Agent("Count."), options=options)

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say(TEN_WORDS)
        await harness.until(1.0)
        handle.interrupt()

    harness.run(scenario, until=2.0).expect_played((0.2, 0.8))


class Searcher(Agent):
    """Its tool says something, and stops it before it answers; `how` it stops it."""

    def __init__(self, how: str) -> None:
        super().__init__("Look things up.")
        self.how = how
        self.filler: SpeechHandle | None = None

    @function_tool
    async def search(self, context: RunContext) -> str:
        """Search."""
        self.filler = self.session.say(TEN_WORDS)
        await anyio.sleep(1.0)
        if self.how == "say":
            _ = self.session.say("Here.", when_busy="interrupt")
        elif self.how == "own":
            context.speech.interrupt()
        elif self.how == "thread":
            await asyncio.to_thread(self._interrupt)
        else:
            await self.session.interrupt(force=self.how == "force")
        return "found"

    def _interrupt(self) -> None:
        _ = self.session.interrupt()


def searching(how: str) -> tuple[Searcher, SessionHarness]:
    """The caller asks at 1.9, the tool runs from 2.0, its filler sounds from 2.2 and is stopped at 3.0."""
    agent = Searcher(how)
    llm = ScriptedLLM([ToolCall(call_id="c1", name="search", arguments="{}")], "It is found.", delay=0.1)
    harness = SessionHarness(agent, llm, tts=ScriptedTTS(emits_words=True))
    harness.caller.says("please search", 0.5, 1.5)
    return agent, harness


@pytest.mark.parametrize("how", ["session", "force", "thread", "say"])
def test_a_tool_that_interrupts_stops_what_sounds_and_its_own_turn_goes_on(how: str) -> None:
    agent, harness = searching(how)
    harness.run(until=8.0)
    assert agent.filler is not None
    assert agent.filler.outcome == "interrupted"
    assert harness.messages[-1] == ("assistant", "It is found.")
    (turn,) = [turn for turn in harness.session.turns if turn.kind == "turn"]
    assert turn.outcome == "completed"
    assert [tool.name for tool in turn.tools] == ["search"]
    assert turn.e2e_latency == pytest.approx(sum(stage.seconds for stage in turn.stages))
    assert [turn.kind for turn in harness.session.turns].count("reply") == 0


def test_a_tool_may_interrupt_its_own_speech_and_a_reply_tells_of_what_it_came_to() -> None:
    agent, harness = searching("own")
    harness.run(until=8.0)
    assert agent.filler is not None
    assert agent.filler.outcome == "completed"
    (turn,) = [turn for turn in harness.session.turns if turn.kind == "turn"]
    (reply,) = [turn for turn in harness.session.turns if turn.kind == "reply"]
    assert (turn.outcome, reply.outcome) == ("cancelled", "completed")
    assert reply.answers_turn_id == turn.turn_id
    assert turn.answers_turn_id == ""
    assert harness.messages[-1] == ("assistant", "It is found.")
