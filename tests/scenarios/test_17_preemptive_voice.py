"""Scenario 17 with a preemptive voice too: the answer is synthesised before the turn is over, and not heard before."""

from __future__ import annotations

from typing import Literal

import pytest

from vivavoce.agents import Agent, SessionOptions, SpeechLimits, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, ScriptedTTSOptions, SessionHarness
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import StepItem, TTSFault

ANSWER = "Sure, I can help you with that right away, madam."


def ask(
    *steps: str | list[StepItem],
    agent: Agent | None = None,
    limits: SpeechLimits | None = None,
    interims: tuple[tuple[float, str], ...] = (),
    tts: ScriptedTTS | None = None,
) -> SessionHarness:
    """Scenario 1: the model could be asked at 2.7, the turn is over at 2.9."""
    harness = SessionHarness(
        agent or Agent("Be nice."),
        ScriptedLLM(*steps),
        tts=tts or ScriptedTTS(first_byte=0.2, options=ScriptedTTSOptions(duration=2.0)),
        options=SessionOptions(preemptive_tts=True, speech=limits or SpeechLimits()),
    )
    harness.preemptive = True
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7, interims=interims)
    return harness


def record(harness: SessionHarness) -> TurnRecord:
    return harness.session.turns[-1]


def stages(harness: SessionHarness) -> dict[str, float]:
    return {stage.name: round(stage.seconds, 6) for stage in record(harness).stages}


def errors(harness: SessionHarness) -> list[tuple[str, float]]:
    return [(event.source, round(event.at, 6)) for event in harness.recording.of(ErrorOccurred)]


def expect_one_answer(harness: SessionHarness) -> None:
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER)).expect_outcomes("completed")
    assert errors(harness) == []
    assert len(harness.played) == 1


def test_with_the_voice_ahead_too_the_answer_sounds_at_the_commit() -> None:
    harness = ask([0.1, ANSWER], interims=((2.0, "hello there"),)).run(until=6.0)
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 2.9), ("speaking", 2.9), ("idle", 4.9))
    harness.expect_played((2.9, 2.0))  # not a sample before the turn is over
    expect_one_answer(harness)
    assert stages(harness) == {"vad_silence": 0.2, "endpointing_wait": 0.2}
    assert record(harness).llm_first_token == pytest.approx(0.1)
    assert record(harness).tts_first_byte == pytest.approx(0.2)
    assert len(harness.tts.texts) == 1
    assert harness.session.usage.tts_characters == len(ANSWER)


def test_a_voice_that_is_not_done_at_the_commit_goes_on_from_there() -> None:
    harness = ask([0.1, ANSWER]).run(until=6.0)
    harness.expect_played((3.0, 2.0))  # model at 2.8, voice at 3.0
    assert stages(harness)["tts_first_byte"] == pytest.approx(0.1)
    assert record(harness).tts_first_byte == pytest.approx(0.2)


def test_what_a_voice_spoke_ahead_in_vain_is_counted() -> None:
    harness = ask([0.1, "Wrong."], [0.1, ANSWER], interims=((2.0, "yellow hair"),)).run(until=6.0)
    expect_one_answer(harness)
    assert harness.session.usage.tts_characters == len("Wrong.") + len(ANSWER)
    assert harness.session.usage.tts_audio_seconds == pytest.approx(4.0)


def test_an_answer_of_many_sentences_is_spoken_ahead_as_far_as_the_playout_would_take() -> None:
    sentences = " ".join(f"This is sentence number {number} of them all." for number in range(20))
    tts = ScriptedTTS(first_byte=0.02, options=ScriptedTTSOptions(duration=4.0))
    harness = ask([0.1, sentences], tts=tts, interims=((1.0, "hello there"),))

    async def look(harness: SessionHarness) -> None:
        await harness.until(2.8)
        assert len(tts.texts) == 3  # the third one goes beyond the ten seconds

    harness.run(look, until=90.0)
    assert len(tts.texts) == 20
    harness.expect_played((2.9, 80.0)).expect_outcomes("completed")


@pytest.mark.parametrize("when", ["before", "middle", "after"])
@pytest.mark.parametrize("is_model_done", [True, False])
def test_a_voice_ahead_that_fails_after_the_commit_is_blamed(
    when: Literal["before", "middle", "after"], is_model_done: bool
) -> None:
    tts = ScriptedTTS(faults={0: TTSFault(when, ProviderStatusError("down", provider="scripted", status=500))})
    more: list[StepItem] = [] if is_model_done else [" And", 0.5, " more."]
    harness = ask([0.1, ANSWER, *more], tts=tts).run(until=9.0)
    assert errors(harness) == [("tts", 3.0)]
    harness.expect_outcomes("failed")


@pytest.mark.parametrize(("more", "fails_at"), [((), 4.5), ((0.5, " And more."), 4.9)])
def test_a_voice_ahead_that_hangs_over_the_commit_fails_at_the_limit_of_the_reply(
    more: tuple[StepItem, ...], fails_at: float
) -> None:
    tts = ScriptedTTS(faults={0: TTSFault("before")})
    harness = ask([0.1, ANSWER, *more], limits=SpeechLimits(tts_first_byte=1.6), tts=tts).run(until=9.0)
    assert errors(harness) == [("tts", fails_at)]  # from the commit on, or from the last word
    harness.expect_outcomes("failed")


def test_a_voice_that_fails_before_the_turn_is_over_costs_the_answer_begun_ahead_only() -> None:
    tts = ScriptedTTS(
        faults={0: TTSFault("before", ProviderStatusError("down", provider="scripted", status=500))},
        first_byte=0.2,
        options=ScriptedTTSOptions(duration=2.0),
    )
    harness = ask([0.1, "Wrong."], [0.1, ANSWER], tts=tts, interims=((2.0, "hello there"),))
    expect_one_answer(harness.run(until=6.0))
    harness.expect_played((3.2, 2.0))


def test_a_model_that_fails_under_a_voice_is_blamed_itself() -> None:
    broken: list[StepItem] = [0.1, "One. Two.", 0.5, ProviderStatusError("down", provider="scripted", status=500)]
    harness = ask(broken).run(until=6.0)
    assert errors(harness) == [("llm", 3.3)]
    harness.expect_outcomes("failed")


def test_with_the_voice_ahead_a_tool_call_alone_speaks_nothing() -> None:
    booked: list[str] = []

    @function_tool
    async def book() -> str:
        """Book a table."""
        booked.append("a table")
        return "booked"

    agent = Agent("Take bookings.", tools=[book])
    call = ToolCall(call_id="c1", name="book", arguments="{}")
    harness = ask([0.1, call], [0.1, ANSWER], agent=agent).run(until=6.0)
    assert booked == ["a table"]
    harness.expect_played((3.2, 2.0))
    assert len(harness.tts.texts) == 1
