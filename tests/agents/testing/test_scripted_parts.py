"""Scripts by words and by text, samples that identify their position, ears of a test's own, refused options."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedTTS,
    ScriptedTTSOptions,
    ScriptedTurnDetector,
    ScriptedVAD,
    ScriptError,
    SessionHarness,
    Spoken,
    ToolCall,
    VADOptions,
    VirtualClock,
    positions,
)
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines import CascadingPipeline, FallbackLLM, FallbackSTT, FallbackTTS
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.testing import ScriptedSTT, TTSFault

RATE = 24000


class Host(Agent):
    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        return f"booked {day}"


BOOK = [ToolCall(call_id="c1", name="book", arguments='{"day": "friday"}')]

# --- a model by the user's words


def test_a_model_answers_by_the_user_s_words_in_whatever_order_they_come() -> None:
    llm = ScriptedLLM("Pardon?").when("table", BOOK, "Booked.").when("bye", "Good bye.")

    async def scenario(harness: SessionHarness) -> None:
        (await harness.user("a Table please")).tool_call("book").next_message("Booked.").no_more()
        (await harness.user("what's that")).next_message("Pardon?").no_more()
        (await harness.user("another table")).tool_call("book").next_message("Booked.").no_more()
        (await harness.user("bye")).next_message("Good bye.").no_more()

    SessionHarness(Host("x"), llm).run(scenario)
    llm.assert_done()


def test_instructions_of_a_reply_are_words_too_and_the_user_s_older_ones_are_none() -> None:
    llm = ScriptedLLM().when("table", "For when?").when("greet", "Hello!")

    async def scenario(harness: SessionHarness) -> None:
        await harness.user("a table")
        await harness.session.reply("Greet the table.")
        await harness.session.reply("Greet them.")

    harness = SessionHarness(Host("x"), llm).run(scenario)
    assert [text for role, text in harness.messages if role == "assistant"] == ["For when?", "For when?", "Hello!"]


def test_words_that_no_step_is_for_fail_the_test_and_are_shown() -> None:
    harness = SessionHarness(Host("x"), ScriptedLLM().when("table", "For when?"))
    harness.caller.types("a chair", 1.0)
    with pytest.raises(ScriptError, match="script has 0 step.* and none for the words 'a chair'"):
        harness.run(until=3.0)


def test_a_further_request_on_words_whose_steps_are_used_up_fails_the_test() -> None:
    harness = SessionHarness(Host("x"), ScriptedLLM().when("table", BOOK))
    harness.caller.types("a table", 1.0)
    with pytest.raises(ScriptError, match=r"a further request on 'table', which has 1 step"):
        harness.run(until=3.0)


def test_words_that_were_never_said_are_found_out() -> None:
    llm = ScriptedLLM().when("table", "For when?")
    with pytest.raises(ScriptError, match=r"never asked for: \['table'\]"):
        llm.assert_done()
    with pytest.raises(ValueError, match="needs words and at least one step"):
        llm.when(" ", "x")


# --- a voice by text


def test_a_voice_has_delays_and_lengths_by_text() -> None:
    by_text = {"one MOMENT": Spoken(first_byte=1.0, seconds=3.0), "bye": Spoken(seconds=0.5)}
    tts = ScriptedTTS(options=ScriptedTTSOptions(by_text=by_text))

    async def scenario(harness: SessionHarness) -> None:
        for text in ("One moment please.", "Bye now.", "As you wish."):
            await harness.session.say(text)

    harness = SessionHarness(Host("x"), tts=tts).run(scenario)
    harness.expect_played((1.0, 3.0), (4.2, 0.5), (4.9, 0.6))


def test_a_voice_that_streams_text_takes_no_length_by_text() -> None:
    with pytest.raises(ConfigurationError, match="a length by text needs"):
        ScriptedTTS(streams_text=True, options=ScriptedTTSOptions(by_text={"x": Spoken(seconds=1.0)}))


@pytest.mark.parametrize("streams_text", [False, True])
def test_samples_tell_which_part_of_a_speech_was_heard(streams_text: bool) -> None:
    tts = ScriptedTTS(streams_text=streams_text, options=ScriptedTTSOptions(tells_position=True))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("one two three four five six seven eight nine ten")

    sink = SessionHarness(Host("x"), tts=tts).run(scenario).room.sink
    assert isinstance(sink, VirtualSink)
    assert positions(sink.played()) == [(0, 2 * RATE)]


def test_a_pause_by_noise_goes_on_at_the_very_sample_of_its_fade() -> None:
    tts = ScriptedTTS(options=ScriptedTTSOptions(tells_position=True))
    harness = SessionHarness(Host("x"), tts=tts)
    harness.caller.makes_noise(1.0, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("one two three four five six seven eight nine ten")

    sink = harness.run(scenario).room.sink
    assert isinstance(sink, VirtualSink)
    (begun, length), (again, rest) = positions(sink.played())
    assert (begun, again + rest) == (0, 2 * RATE)
    assert 0 <= again - length <= 0.01 * RATE  # faded in again


def test_silence_and_half_a_pair_at_either_end_are_told_too() -> None:
    tts = ScriptedTTS(options=ScriptedTTSOptions(tells_position=True, duration=2.0))

    async def main() -> bytes:
        return b"".join([chunk.frame.data async for chunk in tts.synthesize("a b")])

    data = anyio.run(main)
    assert positions(data) == [(0, 2 * RATE)]
    assert positions(data[2:]) == [(1, 2 * RATE - 1)]
    assert positions(data[: 2 * 27] + bytes(40) + data[2 * 35001 : 2 * 35034]) == [(0, 27), (35001, 33)]
    assert positions(bytes(100)) == []


# --- ears


@pytest.mark.parametrize("is_realtime", [False, True])
def test_a_harness_takes_a_vad_with_options(is_realtime: bool) -> None:
    model = ScriptedRealtimeModel() if is_realtime else None
    harness = SessionHarness(Host("x"), model=model, vad=ScriptedVAD(VADOptions(min_silence=0.6)))
    harness.caller.makes_noise(1.0, 2.0)
    harness.run(until=5.0)
    assert harness.pipeline.capabilities.vad_silence == 0.6


def test_a_harness_can_do_without_a_vad() -> None:
    harness = SessionHarness(Host("x"), ScriptedLLM("Hi."), vad=None)
    harness.caller.says("hello there", 1.0, 2.0)
    harness.run(until=5.0).expect_history(("user", "hello there"), ("assistant", "Hi."))


def heard_by(detector: ScriptedTurnDetector) -> SessionHarness:
    harness = SessionHarness(Host("x"), ScriptedLLM(default="All right."), turn_detector=detector)
    harness.caller.says("a table for", 0.5, 1.5)
    harness.caller.says("two people", 3.0, 4.0)
    return harness.run(until=10.0)


def test_a_scripted_detector_judges_by_the_last_words() -> None:
    detector = ScriptedTurnDetector().when("table FOR", False)
    heard_by(detector).expect_history(("user", "a table for two people"), ("assistant", "All right."))
    assert [context.text for context in detector.asked] == ["a table for", "a table for two people"]
    assert len(detector.asked_at) == 2


@pytest.mark.parametrize("first", [True, ProviderError("out of order", provider="scripted")])
def test_a_scripted_detector_judges_by_number(first: Any) -> None:
    harness = heard_by(ScriptedTurnDetector(first, True))
    harness.expect_history(
        ("user", "a table for"), ("assistant", "All right."), ("user", "two people"), ("assistant", "All right.")
    )


def test_ears_beside_a_pipeline_of_the_test_s_own_are_refused() -> None:
    pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS())
    with pytest.raises(ConfigurationError, match="vad had no effect beside a pipeline"):
        SessionHarness(Host("x"), pipeline=pipeline, vad=ScriptedVAD())


# --- options


def test_fallbacks_serve_as_model_and_voice() -> None:
    broken = ScriptedTTS(faults={0: TTSFault("before", ProviderError("no voice", provider="scripted"))})
    voice, model = ScriptedTTS(), FallbackLLM([ScriptedLLM("Booked."), ScriptedLLM()])
    harness = SessionHarness(Host("x"), model, tts=FallbackTTS([broken, voice]))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=6.0).check_laws().expect.contains_message("Booked.")
    assert voice.texts == ["Booked."]
    assert harness.tts.texts == []


def test_a_recogniser_that_cannot_get_the_caller_s_words_is_refused() -> None:
    first = ScriptedSTT()
    fallback = FallbackSTT([first, ScriptedSTT()])
    with pytest.raises(ConfigurationError, match=r"need stt as a ScriptedSTT, got .*FallbackSTT.*pipeline="):
        SessionHarness(Host("x"), stt=fallback)  # type: ignore[arg-type]
    pipeline = CascadingPipeline(stt=fallback, llm=ScriptedLLM("Booked."), tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Host("x"), stt=first, pipeline=pipeline)
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=6.0).expect.contains_message("a table please").contains_message("Booked.")


def test_a_clock_in_the_options_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the clock is the harness's"):
        SessionHarness(Host("x"), options=SessionOptions(clock=VirtualClock()))


def test_the_option_of_answers_ahead_is_refused_where_there_are_none() -> None:
    with pytest.raises(ConfigurationError, match=r"no effect while harness\.preemptive is False"):
        SessionHarness(Host("x"), options=SessionOptions(preemptive_tts=True)).run()


def test_contradictory_wishes_are_refused() -> None:
    harness = SessionHarness(Host("x"), options=SessionOptions(preemptive=False))
    harness.preemptive = True
    with pytest.raises(ConfigurationError, match="leave one out"):
        harness.run()


def test_that_no_answer_is_begun_ahead_is_said_in_failures() -> None:
    expect = SessionHarness(Host("x"), options=SessionOptions(away_after=2.0)).run().expect
    with pytest.raises(AssertionError, match=r"\(no answer is begun before its turn is over, as harness\.preemptive"):
        expect.next_message()


# --- times


@pytest.mark.parametrize(("start", "end"), [(0.51, 1.0), (0.5, 1.005)])
def test_a_sound_at_no_multiple_of_a_frame_is_refused(start: float, end: float) -> None:
    harness = SessionHarness(Host("x"))
    with pytest.raises(ValueError, match=r"a multiple of 0\.02 s, got .*; write \d"):
        harness.caller.makes_noise(start, end)


def test_words_are_recognised_at_any_time() -> None:
    harness = SessionHarness(Host("x"), ScriptedLLM("Hi."))
    harness.caller.says("hello", 0.5, 1.5, final_at=1.7123)
    (transcript,) = [e for e in harness.run(until=4.0).recording.events if e.name == "user_transcript"]
    assert transcript.at == pytest.approx(1.7123)


def test_sounds_that_overlap_are_one_sound() -> None:
    harness = SessionHarness(Host("x"))
    harness.caller.makes_noise(1.0, 3.0)
    harness.caller.makes_noise(1.5, 2.0)
    harness.run(until=6.0)
    assert [(state, at) for who, state, at in harness.states if who == "user"][:2] == [("speaking", 1.0), ("idle", 3.0)]
