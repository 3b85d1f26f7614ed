"""A session on a model that hears the caller itself: heard, sent, cut and lost audio, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import ConnectionReplaced, ErrorOccurred
from vivavoce.agents.testing import ScriptedRealtimeModel, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderProtocolError
from vivavoce.pipelines.llm.base import LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.chat_items import NO_TRANSCRIPT
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeEnding,
    RealtimeProblem,
    RealtimeResumable,
    RealtimeSetup,
)
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection
from vivavoce.pipelines.tts.base import AudioChunk

ANSWER = "one two three four five six seven eight nine ten."
LOST = ProviderConnectionError("cut", provider="scripted")


def listening(model: ScriptedRealtimeModel, agent: Agent | None = None, **parts: Any) -> SessionHarness:
    """Return a session whose model hears the caller, and whose VAD lets the session decide."""
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), **parts)
    return SessionHarness(agent or Agent("Help."), model=model, pipeline=pipeline)


def serving(model: ScriptedRealtimeModel) -> SessionHarness:
    """Return a session whose model's server decides."""
    return SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model))


class Wordless(ScriptedRealtimeModel):
    """Says its answers without their words; the test transcribes them."""

    def connect(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        return WordlessConnection(self, setup)


class WordlessConnection(ScriptedRealtimeConnection):
    async def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        async with aclosing(super().accept(reply_id)) as events:
            async for event in events:
                if isinstance(event, AudioChunk):
                    yield replace(event, text="", words=())
                elif not isinstance(event, TextDelta):
                    yield event


def test_speech_is_answered_without_words_which_enter_the_history_in_their_place_when_they_come() -> None:
    model = ScriptedRealtimeModel([0.3, ANSWER], [0.3, "Sure."], hears=["hello", "again"], transcript_delay=3.5)
    harness = listening(model)
    harness.caller.makes_noise(0.5, 2.5)
    harness.caller.makes_noise(5.5, 6.0)
    harness.run(until=12.0)
    harness.expect_played((3.2, 2.0), (6.7, 0.2)).expect_outcomes("completed", "completed")
    harness.expect_states(
        "agent",
        ("listening", 0.5),
        ("thinking", 2.9),
        ("speaking", 3.2),
        ("idle", 5.2),
        ("listening", 5.5),
        ("thinking", 6.4),
        ("speaking", 6.7),
        ("idle", 6.9),
    )
    harness.expect_history(("user", "hello"), ("assistant", ANSWER), ("user", "again"), ("assistant", "Sure."))
    record = model.connections[0].record
    assert record.commits == pytest.approx([2.9, 6.4])
    assert record.appended == []  # it has heard and said all of it itself
    assert record.pushed_seconds == pytest.approx(
        2.0 + 0.5 + 2 * (0.4 + 0.5), abs=0.2
    )  # the caller's turns, no silence


def test_an_interruption_is_told_with_what_was_heard_of_the_answer() -> None:
    model = ScriptedRealtimeModel([0.3, ANSWER], [0.3, "Sure."], hears=["count", "stop it"])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(2.6, 3.4)
    harness.run(until=6.0)
    # Heard from 1.7 on, paused at 3.1 after 0.5 of speech, cut at its end.
    harness.expect_outcomes("interrupted", "completed")
    assert harness.session.turns[0].played_seconds == pytest.approx(1.4)
    heard = "one two three four five six seven"
    harness.expect_history(("user", "count"), ("assistant", heard), ("user", "stop it"), ("assistant", "Sure."))
    [(item_id, seconds, text)] = model.connections[0].record.truncations
    assert (item_id, text) == ("answer_1", heard)
    assert seconds == pytest.approx(1.4)


def test_an_answer_that_nobody_heard_is_taken_out_of_the_remote_conversation() -> None:
    model = ScriptedRealtimeModel([0.3, ANSWER], [0.3, "Sure."])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(1.6, 2.4)  # the answer, due at 1.7, is held back, and taken back at the end of speech
    harness.run(until=5.0)
    assert model.connections[0].record.truncations == [("answer_1", 0.0, "")]
    harness.expect_history(("user", "[no transcript]"), ("assistant", "Sure."))
    assert harness.session.history.messages("user")[0].no_transcript


def test_the_words_of_an_answer_that_was_cut_before_they_were_known_come_late() -> None:
    model = Wordless(capabilities=RealtimeCapabilities(truncates=False))
    harness = serving(model)

    async def scenario(harness: SessionHarness) -> None:
        model.start_reply([ANSWER])
        await harness.until(1.0)
        await harness.session.interrupt()
        assert harness.messages[-1] == ("assistant", NO_TRANSCRIPT)
        model.transcript("alpha beta gamma delta", item_id="answer_1", role="assistant")
        model.transcript("of nothing that is known", item_id="answer_8", role="assistant")
        model.transcript("alpha", item_id="answer_1", role="assistant", is_final=False)

    harness.run(scenario, until=2.0)
    assert harness.messages[-1] == ("assistant", "alpha beta")
    assert model.connections[0].record.truncations == []


def test_short_sounds_beside_the_agents_speech_are_forgotten_by_the_model() -> None:
    model = ScriptedRealtimeModel([0.3, ANSWER])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(2.0, 2.3)
    harness.run(until=5.0)
    harness.expect_played((1.7, 2.0)).expect_outcomes("completed")
    assert model.connections[0].record.clears == pytest.approx([2.5])


def test_a_backchannel_that_ones_own_stt_hears_is_told_as_words_and_its_audio_forgotten() -> None:
    model, stt = ScriptedRealtimeModel([0.3, ANSWER]), ScriptedSTT()
    pipeline = RealtimePipeline(model, stt=stt, vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline)
    harness.caller.says("hello", 0.5, 1.0)
    harness.caller.says("mhm", 2.0, 2.3)
    harness.run(until=5.0)
    harness.expect_played((1.7, 2.0)).expect_history(("user", "hello"), ("user", "mhm"), ("assistant", ANSWER))
    record = model.connections[0].record
    assert len(record.clears) == 1
    assert [item.content for item in record.appended if isinstance(item, ChatMessage)] == ["mhm"]
    assert not model.connections[0].setup.transcribe


def test_what_is_typed_or_said_in_another_voice_is_told_once_in_its_order() -> None:
    model = ScriptedRealtimeModel([0.3, "Sure."])
    harness = listening(model, tts=ScriptedTTS())

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("Welcome.")
        harness.caller.types("a table")

    harness.run(scenario, until=4.0)
    harness.expect_history(("assistant", "Welcome."), ("user", "a table"), ("assistant", "Sure."))
    record = model.connections[0].record
    assert [(item.role, item.content) for item in record.appended if isinstance(item, ChatMessage)] == [
        ("assistant", "Welcome."),
        ("user", "a table"),
    ]
    assert record.commits == []


def test_without_a_voice_the_model_is_asked_to_say_what_is_given() -> None:
    model = ScriptedRealtimeModel()
    harness = listening(model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("Hello there.")

    harness.run(scenario)
    harness.expect_played((0.0, 0.4)).expect_history(("assistant", "Hello there."))
    assert model.connections[0].record.said == ["Hello there."]
    assert len(model.connections[0].record.appended) == 1


class Clerk(Agent):
    @function_tool
    def look_up(self) -> str:
        """Look it up."""
        return "found"

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        turn.instructions = "Be quick."


def test_tools_run_here_and_their_outputs_are_told_while_their_calls_are_known() -> None:
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    model = ScriptedRealtimeModel([0.1, call, Usage(input_tokens=3)], [0.1, "It is here."], hears=["where"])
    harness = listening(model, Clerk("Help."))
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(until=5.0)
    harness.expect_tools(("look_up", "found")).expect_outcomes("completed")
    [output] = model.connections[0].record.appended
    assert isinstance(output, FunctionCallOutput)
    assert output.output == "found"
    assert [request.extra_instructions for request in model.requests] == ["Be quick.", "Be quick."]
    assert harness.session.usage.llm_input_tokens == 3


def test_a_reply_has_instructions_of_its_own_and_a_new_agent_its_own_before_it_answers() -> None:
    model = ScriptedRealtimeModel("Hello.", "I am new.")
    harness = listening(model)
    other = Agent("Be new.")

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.")
        await harness.session.update_agent(other)
        await harness.session.reply("Who are you?")

    harness.run(scenario)
    assert [request.extra_instructions for request in model.requests] == ["Greet.", "Who are you?"]
    assert [instructions for instructions, _ in model.connections[0].record.updates] == ["Help.", "Be new."]


def test_a_model_that_cannot_be_updated_is_connected_anew_before_the_next_answer() -> None:
    model = ScriptedRealtimeModel(
        "Hello.", "I am new.", capabilities=RealtimeCapabilities(updates=False), open_delay=0.2
    )
    harness = listening(model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.")
        await harness.session.update_agent(Agent("Be new."))
        await harness.session.reply("Who are you?")

    harness.run(scenario)
    first, second = model.connections
    assert (first.setup.instructions, second.setup.instructions) == ("Help.", "Be new.")
    assert first.is_closed
    assert [message.content for message in second.setup.history.messages()] == ["Hello."]
    assert harness.recording.of(ErrorOccurred) == []
    harness.expect_history(("assistant", "Hello."), ("assistant", "I am new."))


def test_a_connection_lost_in_mid_answer_is_followed_by_one_that_goes_on_from_what_was_heard() -> None:
    model = ScriptedRealtimeModel(
        [0.3, "one two three four five.", 1.0, LOST],
        [0.3, "four five."],
        [0.3, "Sure."],
        hears=["count", "and now"],
        open_delay=0.2,
    )
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.7)
        model.fail(LOST)

    harness.run(scenario, until=9.0)
    harness.expect_outcomes("completed", "completed")
    harness.expect_history(
        ("user", "count"),
        ("assistant", "one two three"),  # for an answer of unknown length only the certain part is claimed
        ("assistant", "four five."),
        ("user", "and now"),
        ("assistant", "Sure."),
    )
    told = [(message.role, message.content) for message in model.connections[1].setup.history.messages()]
    assert told == [("user", "count"), ("assistant", "one two three")]
    [event] = harness.recording.of(ConnectionReplaced)
    assert (event.component, event.reason) == ("realtime_model", "lost")
    assert [event.at, event.gap] == pytest.approx([2.9, 0.2])  # lost at 2.7, connecting takes 0.2
    [mark] = harness.session.report().marks
    assert (mark.name, mark.detail) == ("connection_replaced", "realtime_model, lost, gap of 0.200 s")
    assert mark.at == pytest.approx(2.9)


def test_words_said_while_there_is_no_connection_are_heard_by_the_next_one() -> None:
    model = ScriptedRealtimeModel([0.3, "Sure."], hears=["hello"], open_delay=1.0)
    harness = listening(model)

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.makes_noise(harness.now + 0.5, harness.now + 1.0)
        await harness.until(harness.now + 0.4)
        model.fail()
        await harness.until(harness.now + 4.0)

    harness.run(scenario)
    first, second = model.connections
    assert first.record.commits == []
    assert second.record.pushed_seconds == pytest.approx(0.5 + 0.5 + 0.2, abs=0.3)
    harness.expect_history(("user", "hello"), ("assistant", "Sure.")).expect_outcomes("completed")


@pytest.mark.parametrize("how", ["announced", "known"])
def test_a_connection_at_its_limit_is_replaced_in_a_pause_without_a_gap(how: str) -> None:
    known = RealtimeCapabilities(max_seconds=10.0 if how == "known" else None)
    model = ScriptedRealtimeModel([0.3, ANSWER], [0.3, "Sure."], hears=["a", "b"], open_delay=0.4, capabilities=known)
    harness = listening(model)
    harness.caller.makes_noise(7.5, 8.0)  # answered from 8.7 to 10.7
    harness.caller.makes_noise(14.0, 14.5)
    opened: list[float] = []

    async def scenario(harness: SessionHarness) -> None:
        model.emit(RealtimeResumable("handle_1"))
        if how == "announced":
            model.emit(RealtimeEnding(19.0))
        await harness.until(8.9)
        assert len(model.connections) == 1  # the caller spoke, and an answer was made
        await harness.until(13.0)
        opened.append(len(model.connections))

    harness.run(scenario, until=18.0)
    assert opened[0] == 2
    harness.expect_outcomes("completed", "completed")
    assert harness.recording.of(ErrorOccurred) == []
    second = model.connections[1]
    assert second.setup.resume == "handle_1"
    told = [*second.setup.history.messages(), *second.record.appended]
    assert [item.content for item in told if isinstance(item, ChatMessage)] == ["a", ANSWER]  # it ended after that
    assert len(second.record.commits) == 1
    [event] = harness.recording.of(ConnectionReplaced)
    assert (event.reason, event.gap) == ("limit", 0.0)  # it was opened, 0.4 long, while the old one still heard
    assert event.at == pytest.approx(0.4 + 9.0 + 0.4)  # as soon as the whole answer was there


def test_a_connection_whose_replacement_cannot_be_had_serves_on_until_it_ends() -> None:
    model = ScriptedRealtimeModel([0.3, "Sure."], hears=["a"])
    harness = listening(model)
    harness.caller.makes_noise(3.0, 3.5)

    async def scenario(harness: SessionHarness) -> None:
        model.fail_open(LOST)
        model.emit(RealtimeEnding(1.0))
        await harness.until(2.0)
        assert len(model.connections) == 1

    harness.run(scenario, until=6.0)
    harness.expect_outcomes("completed")
    [failure] = harness.recording.of(ErrorOccurred)
    assert failure.is_recovered


def test_a_servers_problem_is_an_error_event_and_its_usage_is_counted() -> None:
    model = ScriptedRealtimeModel()
    harness = serving(model)

    async def scenario(harness: SessionHarness) -> None:
        model.emit(RealtimeProblem(ProviderProtocolError("no such item", provider="scripted")))
        model.emit(Usage(input_tokens=5, output_tokens=7, input_audio_tokens=4, output_audio_tokens=6))
        await harness.until(1.0)

    harness.run(scenario)
    assert [event.is_recovered for event in harness.recording.of(ErrorOccurred)] == [True]
    usage = harness.session.usage
    assert (usage.llm_input_tokens, usage.llm_output_tokens) == (5, 7)
    assert (usage.llm_input_audio_tokens, usage.llm_output_audio_tokens) == (4, 6)


def test_a_server_that_hears_the_caller_cuts_its_answer_by_itself() -> None:
    model = ScriptedRealtimeModel()
    harness = serving(model)

    async def scenario(harness: SessionHarness) -> None:
        model.speech_started()
        await harness.until(0.5)
        model.speech_ended()
        model.transcript("count")
        model.start_reply([0.2, ANSWER], item_id="item_1")
        await harness.until(1.5)
        model.speech_started()
        model.cancel_reply("remote_1")

    harness.run(scenario, until=3.0)
    harness.expect_outcomes("interrupted")
    harness.expect_history(("user", "count"), ("assistant", "one two three four"))
    assert model.connections[0].record.truncations[0][2] == "one two three four"


def test_words_behind_a_call_in_an_answer_that_the_server_began_are_heard_once_and_its_tool_runs() -> None:
    class Cook(Agent):
        @function_tool
        async def taste(self) -> str:
            """Taste the soup."""
            return "salty"

    call = ToolCall(call_id="c1", name="taste", arguments="{}")
    model = ScriptedRealtimeModel([0.3, "Salty."])
    harness = SessionHarness(Cook("Cook."), model=model, pipeline=RealtimePipeline(model))

    async def scenario(harness: SessionHarness) -> None:
        model.transcript("How is it?")
        model.start_reply([0.1, call, "Let me taste."], item_id="item_1")

    harness.run(scenario, until=5.0)
    harness.expect_history(("user", "How is it?"), ("assistant", "Let me taste."), ("assistant", "Salty."))
    harness.expect_tools(("taste", "salty")).expect_outcomes("completed")
    assert [seconds for _, seconds in harness.played] == pytest.approx([0.6, 0.2])
    [output] = model.connections[0].record.appended
    assert isinstance(output, FunctionCallOutput)


def test_a_server_that_ends_turns_and_does_not_answer_is_asked_for_the_answer() -> None:
    model = ScriptedRealtimeModel([0.3, "Sure."], capabilities=RealtimeCapabilities(starts_replies=False))
    harness = serving(model)

    async def scenario(harness: SessionHarness) -> None:
        model.speech_started()
        await harness.until(1.0)
        model.speech_ended(ago=0.3)
        model.turn_ended("item_1")
        await harness.until(2.0)
        model.transcript("hello", item_id="item_1")

    harness.run(scenario, until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Sure.")).expect_played((1.3, 0.2))
    assert model.connections[0].record.commits == []


def test_a_server_that_answers_though_the_session_decides_is_refused() -> None:
    model = ScriptedRealtimeModel()
    harness = listening(model)

    async def scenario(harness: SessionHarness) -> None:
        model.start_reply("Hello.")
        model.turn_ended()
        await harness.until(1.0)

    harness.run(scenario, until=2.0)
    assert model.connections[0].record.refused == ["remote_1"]
    harness.expect_history().expect_played()


def test_text_of_a_model_in_a_voice_of_ones_own_is_cut_to_the_words_heard() -> None:
    can = RealtimeCapabilities(generates_text=True)
    model, stt = ScriptedRealtimeModel([0.1, ANSWER], [0.1, "Sure."], capabilities=can), ScriptedSTT()
    pipeline = RealtimePipeline(
        model, stt=stt, tts=ScriptedTTS(emits_words=True), vad=ScriptedVAD(), options=RealtimeOptions(answers="text")
    )
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=SessionOptions())
    harness.caller.says("count", 0.5, 1.0)
    harness.caller.says("wait stop", 2.2, 2.8)
    harness.run(until=6.0)
    heard = "one two three four five"
    harness.expect_history(("user", "count"), ("assistant", heard), ("user", "wait stop"), ("assistant", "Sure."))
    [(item_id, seconds, text)] = model.connections[0].record.truncations
    assert (item_id, text) == ("answer_1", heard)
    assert seconds > 0
    assert model.connections[0].setup.answers == "text"


def test_what_is_heard_without_a_transcript_is_marked_until_its_words_come() -> None:
    seen: list[str] = []

    class Curious(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            seen.append(turn.text)
            assert [message.content for message in turn.history.messages()] == [NO_TRANSCRIPT]

    model = ScriptedRealtimeModel([0.3, ANSWER], hears=["hello"], transcript_delay=2.0)
    harness = listening(model, Curious("Help."))
    harness.caller.makes_noise(0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        harness.expect_history(("user", NO_TRANSCRIPT))
        assert harness.session.history.messages("user")[0].transcript == ""

    harness.run(scenario, until=8.0)
    assert seen == [""]
    harness.expect_history(("user", "hello"), ("assistant", ANSWER))
    assert not harness.session.history.messages("user")[0].no_transcript
