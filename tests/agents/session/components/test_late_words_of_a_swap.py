"""A recogniser that `update_components` has replaced: the words that it owes come late, to their turn, and once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from kit.hearing import HearingSTT, Speaker
from vivavoce.agents import Agent, EndpointingOptions, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.stt.base import STTCapabilities, STTFinal
from vivavoce.pipelines.testing import HANG, ScriptedSTT, ScriptedSTTStream, ScriptedVAD

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""

SLOW = STTCapabilities(emits_interims=False)


def changing(at: float, stt: ScriptedSTT, **components: Any) -> Any:
    async def scenario(harness: SessionHarness) -> None:
        await harness.until(at)
        change = harness.session.update_components(stt=stt, **components)
        await change
        assert change.outcome == "completed"

    return scenario


def said(harness: SessionHarness) -> str:
    return " ".join(text for role, text in harness.messages if role == "user")


def hearing(stt: ScriptedSTT, *answers: Any, **more: Any) -> SessionHarness:
    return SessionHarness(Agent("Help."), ScriptedLLM(*answers, delay=0.1), stt=stt, **more)


@BOTH
def test_words_that_a_slow_recogniser_settles_behind_its_successor_are_answered() -> None:
    harness = hearing(ScriptedSTT(["my number is five"], final_delay=2.0), "Thanks.")
    harness.caller.makes_noise(0.5, 1.5)  # the turn is given up a second later, and the change comes
    harness.run(changing(1.0, ScriptedSTT()), until=8.0)
    harness.expect_history(("user", "my number is five"), ("assistant", "Thanks."))
    assert len(harness.stt.streams) == 1


@BOTH
def test_words_that_were_answered_as_a_guess_are_not_a_second_turn_when_they_settle() -> None:
    harness = hearing(ScriptedSTT(["My number is five."], final_delay=3.0), "Thanks.")
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised("my number is five", 1.4, is_final=False)
    harness.run(changing(1.0, ScriptedSTT()), until=9.0)
    harness.expect_history(("user", "My number is five."), ("assistant", "Thanks."))
    assert len(harness.session.turns) == 1


@BOTH
@pytest.mark.parametrize("text", ["", "…"])
def test_a_late_final_without_a_word_leaves_a_guess_to_the_words_behind_it(text: str) -> None:
    old = ScriptedSTT()
    harness = hearing(old, "Thanks.")
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised("my number is five", 1.4, is_final=False)
    harness.caller.makes_noise(3.8, 4.4)  # the successor hears it

    async def scenario(harness: SessionHarness) -> None:
        await changing(1.0, ScriptedSTT())(harness)
        await harness.until(4.3)
        for final in (text, "My number is five."):
            old.streams[0].emit(STTFinal(text=final))

    harness.run(scenario, until=9.0)
    harness.expect_history(("user", "My number is five."), ("assistant", "Thanks."))


class Slow(Agent):
    """Takes almost a second for each final."""

    async def stt_stage(self, transcripts: AsyncIterator[UserFinal | UserInterim]) -> Any:
        async for transcript in transcripts:
            await anyio.sleep(0.9 if isinstance(transcript, UserFinal) else 0.0)
            yield UserFinal(text=transcript.text) if isinstance(transcript, UserFinal) else transcript


@BOTH
@pytest.mark.parametrize("what", ["the recogniser", "the pipeline"])
@pytest.mark.parametrize("is_shown", [True, False])
def test_words_that_are_still_with_the_agent_s_stage_at_the_change_are_no_second_turn(
    what: str, is_shown: bool
) -> None:
    stt = ScriptedSTT(["My number is five."], final_delay=1.6)  # at 3.3, from the stage at 4.2; the change is at 3.5
    harness = SessionHarness(Slow("Help."), ScriptedLLM("Thanks.", delay=0.1), stt=stt)
    harness.caller.makes_noise(0.5, 1.5)
    if is_shown:
        harness.caller.is_recognised("my number is five", 1.4, is_final=False)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model, new = ScriptedLLM("Thanks.", delay=0.1), ScriptedSTT()
        if what == "the recogniser":
            await harness.session.update_components(stt=new)
        else:
            await harness.session.update_pipeline(SessionHarness.pipeline_of(model, new, ScriptedTTS()))
        assert harness.now < 4.2

    harness.run(scenario, until=9.0)
    harness.expect_history(("user", "My number is five."), ("assistant", "Thanks."))


@BOTH
def test_late_words_come_before_those_of_the_successor_in_one_turn() -> None:
    new = ScriptedSTT(["in the High Street"], final_delay=0.5)
    harness = hearing(ScriptedSTT(["number five"], final_delay=2.0), "Thanks.")
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(3.0, 4.5)
    harness.run(changing(1.0, new), until=9.0)
    harness.expect_history(("user", "number five in the High Street"), ("assistant", "Thanks."))


@BOTH
@pytest.mark.parametrize("what", ["the recogniser", "the pipeline"])
def test_the_end_of_an_utterance_is_not_heard_again_by_a_successor_that_comes_at_once(what: str) -> None:
    old, new = HearingSTT(), HearingSTT()
    options = SessionOptions(endpointing=EndpointingOptions(min_delay=0.1))
    pipeline = SessionHarness.pipeline_of(ScriptedLLM("", default="Fine."), old, ScriptedTTS())
    harness = SessionHarness(Agent("Help."), pipeline=pipeline, options=options)
    caller = Speaker(harness.caller)
    caller.says(0.5, 5)
    caller.says(4.0, 3)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.6)
        if what == "the recogniser":
            await harness.session.update_components(stt=new)
        else:
            await harness.session.update_pipeline(SessionHarness.pipeline_of(ScriptedLLM("Fine."), new, ScriptedTTS()))
        assert harness.now < 1.5

    harness.run(scenario, until=7.0)
    assert said(harness).split() == caller.said
    assert new.streams


@BOTH
def test_late_words_do_not_stand_for_the_successor_s_own() -> None:
    new = ScriptedSTT(["in the High Street"], final_delay=0.5)
    harness = hearing(ScriptedSTT(["number five"], final_delay=3.2), "Thanks.")
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(3.5, 4.5)  # the old words come at 4.7, behind this
    harness.run(changing(1.0, new), until=9.0)
    harness.expect_history(("user", "number five in the High Street"), ("assistant", "Thanks."))


@BOTH
def test_the_old_recogniser_hears_a_long_utterance_to_its_end() -> None:
    old = ScriptedSTT(["a very long story"], final_delay=0.5, capabilities=SLOW)
    new = ScriptedSTT(["the end"], final_delay=0.5, capabilities=SLOW)
    harness = hearing(old, "Well.", "Bye.")
    harness.caller.makes_noise(0.5, 35.0)  # taken for noise after 30 s, so that the change comes
    harness.caller.makes_noise(40.0, 41.0)
    harness.run(changing(1.0, new), until=45.0)
    harness.expect_history(
        ("user", "a very long story"), ("assistant", "Well."), ("user", "the end"), ("assistant", "Bye.")
    )
    assert new.streams[0].utterances[0] == pytest.approx(41.0 - 35.0, abs=0.5)


@BOTH
def test_the_new_recogniser_gets_the_rest_of_an_utterance_without_end() -> None:
    old = ScriptedSTT(["a very long story"], final_delay=0.5, capabilities=SLOW)
    new = ScriptedSTT(["and the end of it"], final_delay=0.5, capabilities=SLOW)
    harness = hearing(old, "Well.", "Well.")
    harness.caller.makes_noise(0.5, 42.0)
    harness.run(changing(1.0, new), until=45.0)
    assert said(harness) == "a very long story and the end of it"
    assert old.streams[0].flushes == [pytest.approx(40.5, abs=0.2)]
    assert new.streams[0].speech_starts == old.streams[0].flushes


@BOTH
def test_a_recogniser_that_dies_in_its_last_utterance_leaves_the_rest_to_its_successor() -> None:
    old = ScriptedSTT(capabilities=SLOW)
    new = ScriptedSTT(["and the end of it"], final_delay=0.5, capabilities=SLOW)
    harness = hearing(old, "Well.")
    harness.expects_error("stt")
    harness.caller.makes_noise(0.5, 38.0)
    change = changing(1.0, new)

    async def scenario(harness: SessionHarness) -> None:
        await change(harness)
        old.fail_open(*[ProviderConnectionError("gone", provider="scripted", retryable=False)] * 3)
        old.streams[0].emit(ProviderConnectionError("gone", provider="scripted"))

    harness.run(scenario, until=42.0)
    harness.expect_history(("user", "and the end of it"), ("assistant", "Well."))
    assert all(event.is_recovered for event in harness.recording.of(ErrorOccurred))


@BOTH
def test_a_new_vad_ends_the_utterance_of_the_old_recogniser() -> None:
    old = ScriptedSTT(["a very long story"], final_delay=0.5, capabilities=SLOW)
    new = ScriptedSTT(["and the end of it"], final_delay=0.5, capabilities=SLOW)
    harness = hearing(old, "Well.")
    harness.caller.makes_noise(0.5, 35.0)
    harness.run(changing(1.0, new, vad=ScriptedVAD()), until=40.0)
    harness.expect_history(("user", "a very long story and the end of it"), ("assistant", "Well."))


@BOTH
def test_two_changes_in_one_utterance_leave_each_its_part() -> None:
    old = ScriptedSTT(["one"], final_delay=0.2, capabilities=SLOW)
    second, third = (ScriptedSTT([text], final_delay=0.2, capabilities=SLOW) for text in ("two", "three"))
    harness = hearing(old, *["Well."] * 3)
    harness.caller.makes_noise(0.5, 39.0)  # taken for noise again at 35.6
    harness.caller.makes_noise(44.0, 45.0)

    async def scenario(harness: SessionHarness) -> None:
        await changing(1.0, second)(harness)
        await changing(31.0, third)(harness)

    harness.run(scenario, until=48.0)
    assert said(harness) == "one two three"


def test_a_recogniser_without_a_vad_settles_its_words_at_the_change() -> None:
    old, new = ScriptedSTT(["call me"], final_delay=0.3), ScriptedSTT()
    pipeline = CascadingPipeline(stt=old, llm=ScriptedLLM("Sure.", delay=0.1), tts=ScriptedTTS())
    harness = SessionHarness(Agent("Help."), stt=old, pipeline=pipeline)

    async def scenario(harness: SessionHarness) -> None:
        await changing(1.0, new)(harness)
        await harness.until(1.9)
        new.final("at nine")

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "call me at nine"), ("assistant", "Sure."))


@BOTH
@pytest.mark.parametrize("final_delay", [1.5, 4.0])
def test_late_words_of_a_whole_pipeline_that_was_left_are_answered_by_the_next_one(final_delay: float) -> None:
    harness = hearing(ScriptedSTT(["my number is five"], final_delay=final_delay))
    model = ScriptedLLM("Thanks.", delay=0.1)
    other = CascadingPipeline(stt=ScriptedSTT(), llm=model, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness.caller.makes_noise(0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_pipeline(other)

    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "my number is five"), ("assistant", "Thanks."))


# --- a recogniser that hears on, as the caller is in the midst of a sound that was taken for noise


def hearing_on(old: ScriptedSTT, *answers: str) -> SessionHarness:
    """A call in which the sound from 0.5 to 8.0 counts as noise from 5.5 on, so that a change comes in its midst."""
    harness = hearing(old, *answers)
    harness.caller.makes_noise(0.5, 8.0)
    return harness


@BOTH
@pytest.mark.parametrize("final_delay", [0.3, 1.55, 3.0, 4.9, HANG])
def test_words_that_it_has_shown_stay_before_those_of_its_successor_and_come_once(final_delay: float) -> None:
    old = ScriptedSTT(["number five"], final_delay=final_delay)
    harness = hearing_on(old, "Cut.", "Thanks.")  # the first one when the turn is about to be over, unheard
    harness.caller.is_recognised("number five", 6.5, is_final=False)
    harness.caller.makes_noise(8.4, 9.4)
    harness.run(changing(1.0, ScriptedSTT(["in the High Street"], final_delay=0.1)), until=20.0)
    assert [text for role, text in harness.messages if role == "user"] == ["number five in the High Street"]
    assert len(harness.session.turns) == 1


@BOTH
def test_words_that_it_settles_behind_those_of_its_successor_stand_before_them() -> None:
    old = ScriptedSTT(["number five"], final_delay=1.55)  # at 9.75; the turn is over at 9.8
    harness = hearing_on(old, "Thanks.")
    harness.caller.makes_noise(8.6, 9.4)
    harness.run(changing(1.0, ScriptedSTT(["in the High Street"], final_delay=0.1)), until=14.0)
    assert [text for role, text in harness.messages if role == "user"] == ["number five in the High Street"]


@BOTH
@pytest.mark.parametrize("tries", [2, 9])
def test_its_loss_does_not_end_the_rules_of_noise_for_the_rest_of_the_call(tries: int) -> None:
    old, new = ScriptedSTT(), ScriptedSTT()
    harness = hearing_on(old)
    harness.caller.makes_noise(12.0, 30.0)

    async def scenario(harness: SessionHarness) -> None:
        await changing(1.0, new)(harness)
        await harness.until(7.8)
        old.fail_open(*[ProviderConnectionError("gone", provider="scripted")] * tries)  # one try in half a second
        old.fail()
        await harness.until(16.9)
        assert harness.session.user_state == "speaking"
        await harness.until(17.1)
        assert harness.session.user_state == "away"

    harness.run(scenario)


@BOTH
def test_sound_is_no_noise_while_the_successor_is_lost() -> None:
    class OpensAgainSlowly(ScriptedSTT):
        async def open(self) -> ScriptedSTTStream:
            await anyio.sleep(9.0 if self.streams else 0.0)
            return await super().open()

    old, new = ScriptedSTT(), OpensAgainSlowly()
    harness = hearing_on(old)
    harness.caller.makes_noise(9.5, 30.0)

    async def scenario(harness: SessionHarness) -> None:
        await changing(1.0, new)(harness)
        await harness.until(7.0)
        new.fail()
        await harness.until(7.5)
        old.fail()  # which is back at once
        await harness.until(15.9)
        assert harness.session.user_state == "speaking"
        await harness.until(21.1)  # five seconds after the successor is back
        assert harness.session.user_state == "away"

    harness.run(scenario)


@BOTH
def test_a_recogniser_that_was_left_and_dies_is_not_opened_again() -> None:
    old = ScriptedSTT()
    harness = hearing(old)

    async def scenario(harness: SessionHarness) -> None:
        await changing(1.0, ScriptedSTT())(harness)
        old.streams[0].emit(ProviderConnectionError("gone", provider="scripted"))

    harness.run(scenario, until=10.0)
    assert old.open_attempts == 1
    assert harness.recording.of(ErrorOccurred) == []


@BOTH
def test_a_recogniser_that_was_left_is_closed_within_seconds() -> None:
    old = ScriptedSTT()
    harness = hearing(old)

    async def scenario(harness: SessionHarness) -> None:
        await changing(1.0, ScriptedSTT())(harness)
        await harness.until(7.0)
        assert old.streams[0].is_closed

    harness.run(scenario)
