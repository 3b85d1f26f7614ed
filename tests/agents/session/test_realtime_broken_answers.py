"""A session whose model loses its connection in the midst of an answer: the answer goes on, once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderStatusError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.testing.script import Step
from vivavoce.pipelines.tts.base import AudioChunk

LOST = ProviderConnectionError("cut", provider="scripted")
HALF: Step = [0.3, "one two three four five.", 1.0, LOST]
REST: Step = [0.3, "six seven."]


def listening(model: ScriptedRealtimeModel, agent: Agent | None = None, **parts: Any) -> SessionHarness:
    """Return a session whose model hears the caller, and whose VAD lets the session decide."""
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), **parts)
    return SessionHarness(agent or Agent("Help."), model=model, pipeline=pipeline)


def lost_at(seconds: float, model: ScriptedRealtimeModel) -> Any:
    async def scenario(harness: SessionHarness) -> None:
        await harness.until(seconds)
        model.fail(LOST)

    return scenario


def clerk(ran: list[str]) -> Agent:
    """Return an agent with a tool that notes its runs."""

    class Clerk(Agent):
        @function_tool
        def look_up(self) -> str:
            """Look it up."""
            ran.append("found")
            return "found"

    return Clerk("Help.")


def test_the_caller_hears_the_rest_without_saying_anything() -> None:
    model = ScriptedRealtimeModel(HALF, REST, hears=["count"], open_delay=0.2)
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(lost_at(2.6, model), until=8.0)
    harness.expect_history(("user", "count"), ("assistant", "one two three"), ("assistant", "six seven."))
    harness.expect_played((1.7, 1.0), (3.1, 0.4)).expect_outcomes("completed")
    harness.expect_states(
        "agent",
        ("idle", 0.2),
        ("listening", 0.5),
        ("thinking", 1.4),
        ("speaking", 1.7),
        ("thinking", 2.7),
        ("speaking", 3.1),
        ("idle", 3.5),
    )
    told = [*model.connections[1].setup.history, *model.connections[1].record.appended]
    messages = [(item.role, item.content) for item in told if isinstance(item, ChatMessage)]
    assert messages == [("user", "count"), ("assistant", "one two three")]
    assert "Go on from there" in model.requests[1].extra_instructions
    [turn] = harness.session.turns
    assert turn.heard_text == "one two three six seven."
    assert all(event.is_recovered for event in harness.recording.of(ErrorOccurred))


def test_an_answer_that_breaks_twice_fails_the_turn_and_the_next_one_works() -> None:
    again: Step = [0.3, "six seven eight.", 1.0, LOST]
    model = ScriptedRealtimeModel(HALF, again, [0.3, "Sure."], hears=["count", "hello"])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(7.0, 7.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.7)
        model.fail(LOST)
        await harness.until(4.0)
        model.fail(LOST)

    harness.run(scenario, until=10.0)
    harness.expect_outcomes("failed", "completed")
    assert harness.messages[-2:] == [("user", "hello"), ("assistant", "Sure.")]
    assert len(model.requests) == 3


def test_who_speaks_meanwhile_is_answered_and_the_broken_answer_is_not_made_again() -> None:
    model = ScriptedRealtimeModel(HALF, REST, [0.3, "Sure."], hears=["count", "wait"], open_delay=0.8)
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(2.8, 3.6)
    harness.run(lost_at(2.7, model), until=9.0)
    assert [text for role, text in harness.messages if role == "user"] == ["count", "wait"]
    assert harness.messages[-1] == ("assistant", "Sure.")
    assert ("assistant", "six seven.") not in harness.messages


def with_recogniser(model: ScriptedRealtimeModel) -> SessionHarness:
    """Return such a session with a recogniser of its own."""
    stt = ScriptedSTT()
    return SessionHarness(Agent("Help."), stt=stt, pipeline=RealtimePipeline(model, stt=stt, vad=ScriptedVAD()))


def test_the_rest_does_not_begin_over_a_caller_whose_words_hold_the_answer() -> None:
    model = ScriptedRealtimeModel([0.3, "one two three four five six seven.", 1.4, LOST], REST, [0.2, "Sure."])
    harness = with_recogniser(model)
    harness.caller.says("count", 0.5, 1.0)
    harness.caller.says("please stop that now", 2.2, 5.2)
    harness.run(lost_at(3.0, model), until=8.0)  # held since 2.7
    harness.expect_played((1.7, 1.05), (5.8, 0.2)).expect_outcomes("interrupted", "completed")
    assert harness.messages[1:] == [
        ("assistant", "one two three"),
        ("user", "please stop that now"),
        ("assistant", "Sure."),
    ]


def test_an_answer_that_words_kept_from_beginning_does_not_begin_after_a_loss() -> None:
    model = ScriptedRealtimeModel([0.6, "one two three.", 0.3, LOST], REST, [0.2, "Sure."])
    harness = with_recogniser(model)
    harness.caller.says("hey", 0.5, 1.0)
    harness.caller.says("no wait a moment please I mean tuesday", 1.6, 4.0)
    harness.run(lost_at(2.3, model), until=8.0)
    assert [stretch.start > 4.0 for stretch in harness.played] == [True]
    assert harness.messages[-1] == ("assistant", "Sure.")


def test_the_rest_waits_for_a_sound_without_words_to_end() -> None:
    model = ScriptedRealtimeModel([0.3, "one two three four five six seven.", 1.4, LOST], REST)
    harness = with_recogniser(model)
    harness.caller.says("count", 0.5, 1.0)
    harness.caller.makes_noise(2.2, 5.2)
    harness.run(lost_at(3.0, model), until=9.0)
    harness.expect_played((1.7, 1.05), (6.2, 0.4)).expect_outcomes("completed")


def test_the_rest_is_not_said_to_a_caller_who_is_gone() -> None:
    model = ScriptedRealtimeModel([0.3, "one two three four five six seven.", 1.4, LOST], REST)
    harness = with_recogniser(model)
    harness.caller.says("count", 0.5, 1.0)
    harness.caller.leaves(2.2)
    harness.run(lost_at(3.0, model), until=6.0)
    harness.expect_history(("user", "count"), ("assistant", "one two"))


def test_a_question_whose_words_are_known_is_not_heard_again_behind_the_half_answer() -> None:
    model = ScriptedRealtimeModel(HALF, REST)
    harness = with_recogniser(model)
    harness.caller.says("count", 0.5, 1.0)
    harness.run(lost_at(2.6, model), until=8.0)
    second = model.connections[1]
    told = [*second.setup.history, *second.record.appended]
    messages = [(item.role, item.content) for item in told if isinstance(item, ChatMessage)]
    assert messages == [("user", "count"), ("assistant", "one two three")]
    assert (second.record.commits, second.record.pushed_seconds) == ([], 0.0)


def test_an_answer_of_which_no_word_was_heard_is_made_anew() -> None:
    model = ScriptedRealtimeModel([0.3, "one two three.", 0.1, LOST], [0.3, "One, two."], hears=["count"])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(lost_at(1.8, model), until=8.0)
    harness.expect_history(("user", "count"), ("assistant", "One, two.")).expect_outcomes("completed")


def test_an_answer_that_the_server_began_goes_on_too() -> None:
    model = ScriptedRealtimeModel(REST)
    harness = SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model))

    async def scenario(harness: SessionHarness) -> None:
        model.start_reply(["one two three four five.", 1.0, LOST], item_id="item_1")
        model.transcript("count", item_id="item_1")
        await harness.until(1.0)
        model.fail(LOST)

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "count"), ("assistant", "one two three"), ("assistant", "six seven."))
    harness.expect_outcomes("completed")


@pytest.mark.parametrize("open_delay", [0.0, 0.3])
@pytest.mark.parametrize("waits", [0.0, 0.4])
def test_an_answer_of_the_server_that_is_lost_before_its_first_sound_is_asked_for(
    waits: float, open_delay: float
) -> None:
    model = ScriptedRealtimeModel([0.3, "Hello again."], open_delay=open_delay)
    harness = SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model.transcript("count", item_id="item_1")
        model.start_reply([0.4, LOST], item_id="item_1")
        if waits:
            await harness.until(1.0 + waits)
        model.fail(LOST)  # without a wait before the answer is taken

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "count"), ("assistant", "Hello again.")).expect_outcomes("completed")
    assert all(event.is_recovered for event in harness.recording.of(ErrorOccurred))


def test_an_answer_that_was_only_a_call_is_asked_for_again_and_the_tool_runs_once() -> None:
    ran: list[str] = []
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    again = ToolCall(call_id="c2", name="look_up", arguments="{}")
    model = ScriptedRealtimeModel([0.1, call, 1.0, LOST], [0.1, again], [0.3, "There."], hears=["where"])
    harness = listening(model, clerk(ran))
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(lost_at(2.0, model), until=8.0)
    harness.expect_tools(("look_up", "found")).expect_outcomes("completed")
    assert (ran, harness.messages) == (["found"], [("user", "where"), ("assistant", "There.")])


def test_a_request_of_which_nothing_came_is_tried_as_often_as_the_options_say() -> None:
    model = ScriptedRealtimeModel([0.3, LOST], REST, hears=["count"])
    harness = listening(model, options=RealtimeOptions(reply_retry=RetryOptions(waits=())))
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(lost_at(1.6, model), until=5.0)
    harness.expect_outcomes("failed")
    assert len(model.requests) == 1


def test_a_reply_goes_on_by_its_own_instructions() -> None:
    model = ScriptedRealtimeModel(HALF, REST)
    harness = listening(model)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.reply("Count.")
        await harness.until(1.3)
        model.fail(LOST)
        await speech
        assert speech.outcome == "completed"
        assert speech.heard_text == "one two three six seven."

    harness.run(scenario, until=6.0)
    assert [request.extra_instructions.splitlines()[0] for request in model.requests] == ["Count.", "Count."]


def test_an_answer_behind_a_tool_goes_on_and_the_tool_runs_once() -> None:
    ran: list[str] = []
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    model = ScriptedRealtimeModel([0.1, call], HALF, REST, hears=["where"])
    harness = listening(model, clerk(ran))
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(lost_at(2.8, model), until=8.0)
    harness.expect_tools(("look_up", "found")).expect_outcomes("completed")
    assert (ran, harness.messages[-1]) == (["found"], ("assistant", "six seven."))


def test_text_of_a_model_in_a_voice_of_ones_own_goes_on_too() -> None:
    can = RealtimeCapabilities(generates_text=True)
    model, stt = ScriptedRealtimeModel(HALF, REST, capabilities=can), ScriptedSTT()
    tts = ScriptedTTS(emits_words=True)
    pipeline = RealtimePipeline(model, stt=stt, tts=tts, vad=ScriptedVAD(), options=RealtimeOptions(answers="text"))
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline)
    harness.caller.says("count", 0.5, 1.0)
    harness.run(lost_at(2.7, model), until=8.0)
    harness.expect_outcomes("completed")
    assert harness.messages[0] == ("user", "count")
    assert harness.messages[-1] == ("assistant", "six seven.")


class Cut(ScriptedTTS):
    """Loses its connection in its second text."""

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        async with aclosing(super().synthesize(text)) as chunks:
            async for chunk in chunks:
                yield chunk
                if len(self.texts) == 2:
                    raise ProviderConnectionError("cut", provider="voice")


def test_a_voice_that_is_lost_does_not_have_the_model_asked_again() -> None:
    can = RealtimeCapabilities(generates_text=True)
    answer: Step = [0.3, "One two three. ", 0.3, "Four five six. ", 0.1, "Seven."]
    model, stt = ScriptedRealtimeModel(answer, REST, capabilities=can), ScriptedSTT()
    tts, options = Cut(emits_words=True), RealtimeOptions(answers="text")
    pipeline = RealtimePipeline(model, stt=stt, tts=tts, vad=ScriptedVAD(), options=options)
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline)
    harness.caller.says("count", 0.5, 1.0)
    harness.run(until=8.0)
    harness.expect_outcomes("failed")
    assert (len(model.requests), len(model.connections)) == (1, 1)
    assert [text for role, text in harness.messages if role == "assistant"] == ["One"]  # as a cascade is cut
    assert ("tts", False) in [(event.source, event.is_recovered) for event in harness.recording.of(ErrorOccurred)]


def test_an_answer_of_which_nothing_was_heard_is_asked_for_without_a_word_about_the_loss() -> None:
    model = ScriptedRealtimeModel([0.2, "one two three.", 0.3, LOST], REST)
    stt = ScriptedSTT()
    pipeline = RealtimePipeline(model, stt=stt, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline)
    harness.caller.says("hey", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.8)
        _ = harness.session.say("Please wait a moment until I have found that for you my dear.")
        await harness.until(1.95)  # the answer waits behind that
        model.fail(LOST)

    harness.run(scenario, until=10.0)
    assert harness.messages[-1] == ("assistant", "six seven.")
    assert not any("lost" in request.extra_instructions for request in model.requests)


@pytest.mark.parametrize("error", [ProviderStatusError("busy", provider="scripted", status=500, retryable=True)])
def test_an_answer_that_fails_without_a_loss_of_the_connection_is_not_made_again(error: Exception) -> None:
    model = ScriptedRealtimeModel([0.3, "one two three.", 1.0, error], hears=["count"])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(until=8.0)
    harness.expect_outcomes("failed")
    assert len(model.requests) == 1


def test_a_cascade_whose_model_is_cut_in_mid_answer_fails_the_turn_as_ever() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, "One two. ", 0.5, LOST]))
    harness.caller.says("count", 0.5, 1.0)
    harness.run(until=8.0)
    harness.expect_outcomes("failed")
    assert len(harness.llm.requests) == 1
