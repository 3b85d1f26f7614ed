"""Scenarios 14, 15 and 22: providers raise or hang before, in the middle of and after their work."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Literal

import anyio
import pytest

from vivavoce.agents import Agent, CompletedTurn, SessionOptions, SpeechLimits, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import HANG, ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness, TTSFault
from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedTTSOptions, StepItem
from vivavoce.pipelines.tts.base import AudioChunk

LIMITS = SessionOptions(speech=SpeechLimits(llm_first_token=3.0, llm_stall=2.0, tts_first_byte=1.5, tts_stall=1.0))


def broken() -> ProviderError:
    return ProviderError("it broke", provider="scripted")


def ask_twice(harness: SessionHarness, *, again_at: float = 10.0, until: float = 20.0) -> SessionHarness:
    """The caller asks, the answer fails, the caller asks again; commits at 1.9 and `again_at` + 1.4."""
    harness.caller.says("first question", 0.5, 1.5)
    harness.caller.says("second question", again_at, again_at + 1.0)
    harness.run(until=until)
    harness.expect_outcomes("failed", "completed")
    assert harness.messages[-2:] == [("user", "second question"), ("assistant", "All is well.")]
    assert [state for who, state, _ in harness.states if who == "agent"][-3:] == ["idle", "closing", "closed"]
    assert harness.session.turns[0].error
    return harness


def states_until(harness: SessionHarness, end: float) -> list[tuple[str, float]]:
    return [(state, at) for who, state, at in harness.states if who == "agent" and 0 < at < end]


def errors(harness: SessionHarness) -> list[tuple[str, float]]:
    return [(event.source, round(event.at, 6)) for event in harness.recording.of(ErrorOccurred)]


def test_a_model_that_raises_before_its_first_token_fails_the_turn_and_the_next_one_works() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, broken()], [0.1, "All is well."]))
    ask_twice(harness)
    assert states_until(harness, 10) == [("listening", 0.5), ("thinking", 1.9), ("idle", 2.0)]
    assert errors(harness) == [("llm", 2.0)]
    harness.expect_history(("user", "first question"), ("user", "second question"), ("assistant", "All is well."))


def test_a_model_that_raises_in_mid_sentence_keeps_what_was_heard() -> None:
    step: list[StepItem] = [0.1, "One two three four. Five", 0.5, " six", broken()]
    voice = ScriptedTTS(emits_words=True)
    harness = SessionHarness(Agent("Help."), ScriptedLLM(step, [0.1, "All is well."]), tts=voice)
    ask_twice(harness)
    # The first sentence is heard from 2.2 on; the model breaks at 2.5.
    assert states_until(harness, 10) == [("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.5)]
    assert harness.messages[1] == ("assistant", "One")
    assert harness.session.history.messages("assistant")[0].interrupted
    assert errors(harness) == [("llm", 2.5)]


def test_a_model_that_raises_after_its_last_token_fails_its_turn() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, "One two. ", broken()], [0.1, "All is well."]))
    ask_twice(harness)
    assert errors(harness) == [("llm", 2.0)]


@pytest.mark.parametrize("when", ["before", "middle", "after"])
def test_a_voice_that_raises_fails_the_turn_and_the_next_one_works(when: Literal["before", "middle", "after"]) -> None:
    voice = ScriptedTTS(faults={0: TTSFault(when, broken())})
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, "One two three."], [0.1, "All is well."]), tts=voice)
    ask_twice(harness)
    assert errors(harness) == [("tts", 2.2)]
    assert states_until(harness, 10)[-1] == ("idle", 2.2)


def test_a_recogniser_that_dies_is_opened_again_and_the_next_turn_works() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, "All is well."]), stt=ScriptedSTT())

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        harness.stt.fail()
        await harness.until(2.0)
        harness.caller.says("hello there", 2.0, 3.0)

    harness.run(scenario, until=6.0)
    assert harness.stt.open_attempts == 2
    recovered = harness.recording.of(ErrorOccurred)
    assert [(event.source, event.is_recovered) for event in recovered] == [("stt", True)]
    harness.expect_history(("user", "hello there"), ("assistant", "All is well.")).expect_outcomes("completed")


@pytest.mark.parametrize(
    ("step", "fails_at"), [([HANG], 1.9 + 3.0), ([0.1, "One two. ", HANG], 1.9 + 0.1 + 2.0)], ids=["at_once", "stall"]
)
def test_a_model_that_hangs_fails_at_its_limit(step: list[StepItem], fails_at: float) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(step, [0.1, "All is well."]), options=LIMITS)
    ask_twice(harness)
    assert errors(harness) == [("llm", round(fails_at, 6))]
    assert isinstance(harness.recording.of(ErrorOccurred)[0].error, ProviderTimeoutError)
    assert harness.llm.cancelled == [0]


@pytest.mark.parametrize(("when", "fails_at"), [("before", 3.5), ("middle", 3.2), ("after", 3.2)])
def test_a_voice_that_hangs_fails_at_its_limit(when: Literal["before", "middle", "after"], fails_at: float) -> None:
    harness = SessionHarness(
        Agent("Help."),
        ScriptedLLM([0.1, "One two three."], [0.1, "All is well."]),
        tts=ScriptedTTS(faults={0: TTSFault(when)}),
        options=LIMITS,
    )
    ask_twice(harness)
    assert errors(harness) == [("tts", fails_at)]  # text in at 2.0, first audio due at 3.5
    assert harness.tts.cancelled == [0]


class Slow(Agent):
    @function_tool(timeout=20.0)
    async def look_up(self) -> str:
        """Look something up."""
        await anyio.sleep_forever()
        return "never"


def look_up_call() -> ToolCall:
    return ToolCall(call_id="c1", name="look_up", arguments="{}")


def test_a_tool_that_hangs_through_an_interruption_settles_at_its_timeout_and_is_answered() -> None:
    harness = SessionHarness(
        Slow("Help."), ScriptedLLM([look_up_call()], "Something else.", "It took too long.", delay=0.1)
    )
    harness.caller.says("look it up", 0.5, 1.5)
    harness.caller.says("something else", 3.0, 4.0)
    harness.run(until=30.0)
    harness.expect_tools(("look_up", "The tool did not answer within 20 seconds."))
    second = harness.llm.requests[1].context.items
    assert any("still running" in getattr(item, "output", "") for item in second)
    assert harness.tools[0].at == pytest.approx(22.0)


def test_a_tool_that_hangs_through_close_is_cancelled_and_answered_in_the_history() -> None:
    harness = SessionHarness(Slow("Help."), ScriptedLLM([look_up_call()], delay=0.1))
    harness.caller.says("look it up", 0.5, 1.5)
    harness.run(until=5.0)
    harness.expect_tools(("look_up", "The call was cancelled."))
    kinds = [type(item).__name__ for item in harness.session.history.items]
    assert kinds == ["ChatMessage", "FunctionCall", "FunctionCallOutput"]
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert harness.close_report.seconds < 0.05


def test_three_failures_in_a_row_close_the_session_with_reason_error() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(*[[broken()] for _ in range(3)]))
    for start in (0.5, 3.5, 6.5):
        harness.caller.says("a question", start, start + 1.0)

    async def scenario(harness: SessionHarness) -> None:
        report = await harness.session.wait_closed()
        assert report.reason == "error"
        assert harness.now == pytest.approx(7.9)

    harness.expects_error("session").run(scenario)
    harness.expect_outcomes("failed", "failed", "failed")


def test_a_good_turn_resets_the_count_of_failures() -> None:
    bad: list[StepItem] = [broken()]
    harness = SessionHarness(Agent("Help."), ScriptedLLM(bad, bad, "Good.", bad, bad, "Good."))
    for number in range(6):
        harness.caller.says("a question", 0.5 + 3 * number, 1.5 + 3 * number)
    harness.run(until=20.0)
    harness.expect_outcomes("failed", "failed", "completed", "failed", "failed", "completed")
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"


class Mute(ScriptedTTS):
    """A voice that takes every text and gives no audio."""

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        for _ in ():
            yield _


def test_a_voice_that_gives_no_audio_of_words_fails_the_turn() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("All is well.", delay=0.1), tts=Mute())
    harness.caller.says("a question", 0.5, 1.5)
    harness.run(until=5.0)
    harness.expect_outcomes("failed").expect_history(("user", "a question"))
    assert [source for source, _ in errors(harness)] == ["tts"]
    assert "gave no audio" in harness.session.turns[0].error


def test_a_text_without_a_letter_needs_no_audio() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("...", delay=0.1), tts=Mute())
    harness.caller.says("a question", 0.5, 1.5)
    harness.run(until=5.0)
    harness.expect_outcomes("completed")


async def slow_text(*pieces: str | float) -> AsyncGenerator[str, None]:
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            await anyio.sleep(piece)


VOICE_LIMITS = SessionOptions(speech=SpeechLimits(tts_first_byte=1.5, tts_stall=1.0))


@pytest.mark.parametrize("pieces", [("One. ", 6.0, "Two."), (6.0, "One. ", "Two.")])
def test_a_text_that_comes_slowly_does_not_fail_the_voice(pieces: tuple[str | float, ...]) -> None:
    harness = SessionHarness(Agent("Help."), options=VOICE_LIMITS)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(slow_text(*pieces))
        await speech
        assert (speech.outcome, speech.heard_text) == ("completed", "One. Two.")
        assert harness.now > 6.0

    harness.run(scenario)
    assert [turn.agent_text for turn in harness.session.turns] == ["One. Two."]


def test_a_voice_that_hangs_after_a_slow_text_fails_at_its_limit() -> None:
    harness = SessionHarness(Agent("Help."), tts=ScriptedTTS(faults={0: TTSFault("before")}), options=VOICE_LIMITS)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(slow_text(4.0, "One."))
        await speech
        assert (speech.outcome, round(harness.now, 3)) == ("failed", 5.5)

    harness.run(scenario)


def test_a_text_without_end_is_spoken_until_it_is_interrupted() -> None:
    async def endless() -> AsyncGenerator[str, None]:
        while True:
            yield "One more. "
            await anyio.sleep(0.5)

    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(endless())
        await harness.until(10.0)
        await harness.session.interrupt()
        await speech
        assert speech.outcome == "interrupted"
        assert speech.played_seconds > 1.0

    harness.run(scenario)


def test_a_text_that_raises_fails_its_speech_only() -> None:
    async def breaks() -> AsyncGenerator[str, None]:
        yield "One. "
        raise ValueError("secret")

    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(breaks())
        await speech
        assert isinstance(speech.exception(), ValueError)
        await harness.session.say("Still here.")

    harness.run(scenario)
    harness.expect_outcomes("failed", "completed")


def test_logs_do_not_quote_what_foreign_code_raised(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Agent):
        @function_tool
        async def pay(self, pin: str) -> str:
            """Pay."""
            raise ValueError(f"the pin {pin} is wrong")

        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            raise ValueError(turn.text)

    step = ToolCall(call_id="c1", name="pay", arguments='{"pin": "xyzzy"}')
    harness = SessionHarness(Clumsy("Help."), ScriptedLLM([step], [0.1, RuntimeError("xyzzy")]))
    with caplog.at_level(logging.INFO, logger="vivavoce"):
        harness.caller.says("my pin is xyzzy", 0.5, 1.5)
        harness.expects_error("hook").expects_error("tool").run(until=5.0)
    harness.expect_outcomes("failed")
    assert "xyzzy" not in caplog.text
    for kind in ("pay raised ValueError", "on_user_turn_completed failed: ValueError", "it raised RuntimeError"):
        assert kind in caplog.text


class Clerk(Agent):
    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        return "found"


@pytest.mark.parametrize("fault", [broken(), HANG], ids=["raises", "hangs"])
def test_a_model_that_fails_after_its_tools_is_blamed_and_not_the_voice(fault: StepItem) -> None:
    script: list[list[StepItem]] = [["Let me see. ", ToolCall(call_id="c1", name="look_up", arguments="{}")], [fault]]
    harness = SessionHarness(Clerk("Help."), ScriptedLLM(*script, [0.1, "All is well."]), options=LIMITS)
    ask_twice(harness)
    assert [source for source, _ in errors(harness)] == ["llm"]


def test_a_voice_that_fails_while_the_model_still_writes_is_blamed_and_not_the_model() -> None:
    voice = ScriptedTTS(faults={0: TTSFault("before", broken())})
    model = ScriptedLLM(["One two. Three four. Five six", 1.0, " seven."], [0.1, "All is well."])
    harness = SessionHarness(Agent("Help."), model, tts=voice)
    ask_twice(harness)
    assert errors(harness) == [("tts", 2.1)]


def test_a_text_that_raises_is_the_applications_failure() -> None:
    async def breaks() -> AsyncGenerator[str, None]:
        yield "One. "
        raise ValueError

    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say(breaks())

    harness.run(scenario)
    assert [source for source, _ in errors(harness)] == ["text"]


def test_a_voice_that_waits_until_there_is_room_for_its_audio_does_not_hang() -> None:
    sentence = f"One{' more' * 24}. "
    model = ScriptedLLM([0.1, 4 * sentence, 1.5, "Bye."])
    voice = ScriptedTTS(options=ScriptedTTSOptions(seconds_per_word=0.25))
    harness = SessionHarness(Agent("Help."), model, tts=voice, options=LIMITS)
    harness.caller.says("a question", 0.5, 1.5)
    harness.caller.leaves(3.0)
    harness.caller.joins(11.0)  # the last text is in at 3.5, while the voice, 10 s ahead, waits for the caller
    harness.run(until=60.0)
    harness.expect_outcomes("completed")
    assert errors(harness) == []
    assert harness.messages[-1] == ("assistant", f"{4 * sentence}Bye.")


def test_a_voice_that_hangs_after_it_had_to_wait_for_room_fails_at_its_limit() -> None:
    sentence = f"One{' more' * 24}. "
    model = ScriptedLLM([0.1, 4 * sentence, 1.5, "Bye."])
    voice = ScriptedTTS(faults={4: TTSFault("before")}, options=ScriptedTTSOptions(seconds_per_word=0.25))
    harness = SessionHarness(Agent("Help."), model, tts=voice, options=LIMITS)
    harness.caller.says("a question", 0.5, 1.5)
    harness.run(until=60.0)
    harness.expect_outcomes("failed")
    ((source, at),) = errors(harness)
    assert source == "tts"
    assert at == pytest.approx(2.2 + 25 - 10 + 1.0, abs=0.1)  # heard from 2.2 on; asked for the last words 10 s ahead


class Clinging(ScriptedLLM):
    """A model whose stream closes slowly."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        try:
            async for event in super().generate(request):
                yield event
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(4.0)


def test_a_stream_that_closes_slowly_makes_no_failure_of_a_speech_that_was_interrupted() -> None:
    harness = SessionHarness(Agent("Help."), Clinging([0.1, "One two three four. Five", HANG]), options=LIMITS)
    harness.caller.says("a question", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.8)
        await harness.session.interrupt()

    harness.run(scenario, until=20.0)
    harness.expect_outcomes("interrupted")
    assert errors(harness) == []
    assert harness.session.turns[0].error == ""


def test_a_text_is_closed_when_its_speech_fails() -> None:
    closed: list[float] = []

    async def long_text() -> AsyncGenerator[str, None]:
        try:
            for _ in range(100):
                yield "One two. "
        finally:
            closed.append(harness.now)

    voice = ScriptedTTS(first_byte=0.0, faults={0: TTSFault("before", broken())})
    harness = SessionHarness(Agent("Help."), tts=voice)

    async def scenario(harness: SessionHarness) -> None:
        text = long_text()
        speech = harness.session.say(text)
        await speech
        assert (speech.outcome, closed) == ("failed", [0.0])

    harness.run(scenario)


def test_what_a_tool_came_to_whose_voice_failed_is_answered_late() -> None:
    class Booking(Agent):
        @function_tool
        async def book(self) -> str:
            """Book."""
            await anyio.sleep(2.0)
            return "booked"

    call = ToolCall(call_id="c1", name="book", arguments="{}")
    voice = ScriptedTTS(faults={0: TTSFault("before", broken())})
    model = ScriptedLLM(["Let me see. ", call], [0.1, "It is booked."])
    harness = SessionHarness(Booking("Help."), model, tts=voice)
    harness.caller.says("book it", 0.5, 1.5)
    harness.run(until=10.0)
    harness.expect_outcomes("failed", "completed").expect_tools(("book", "booked"))
    assert harness.messages == [("user", "book it"), ("assistant", "It is booked.")]
