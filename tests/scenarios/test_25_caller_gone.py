"""Scenario 25: the caller, or only the caller's audio, is gone in the middle of something."""

from __future__ import annotations

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import ScriptedSTT

LINE = "one two three four five six seven eight nine ten."


def test_what_the_agent_was_saying_is_held_while_the_caller_is_away_and_said_to_its_end_at_the_return() -> None:
    harness = SessionHarness(Agent("Help."))
    harness.caller.leaves(1.0)
    harness.caller.joins(6.0)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(LINE)
        await speech
        assert speech.outcome == "completed"

    harness.run(scenario)
    first, second = harness.played
    assert first.start + first.seconds < 1.2
    assert second.start >= 6.0
    assert 1.95 <= first.seconds + second.seconds <= 2.1  # all of it, the fade of the pause twice


def test_what_nobody_was_there_to_hear_is_not_in_the_history() -> None:
    harness = SessionHarness(Agent("Help."))
    harness.caller.leaves(1.0)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(LINE)
        await speech
        assert speech.outcome == "interrupted"
        assert speech.heard_text == "one two three four"

    harness.run(scenario)
    harness.expect_history(("assistant", "one two three four"))


def test_audio_that_stops_in_mid_speech_does_not_hold_the_agent() -> None:
    harness = SessionHarness(Agent("Help."))
    harness.caller.makes_noise(0.5, 50.0)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(LINE)
        await harness.until(1.5)
        harness.caller.stop()
        await speech
        assert harness.now < 9.0

    harness.run(scenario)


def test_words_said_before_and_after_typing_reach_a_recogniser_that_needs_a_vad_as_one_utterance() -> None:
    stt = ScriptedSTT(["six seven eight"], capabilities=STTCapabilities(needs_flush=True, emits_interims=False))
    llm = ScriptedLLM("Never heard.", "All right.", delay=0.1)
    harness = SessionHarness(Agent("Help."), llm, stt=stt)
    harness.caller.makes_noise(0.5, 2.5)
    harness.caller.types("hello", 1.5)
    harness.run(until=6.0)
    assert len(stt.streams[0].utterances) == 1
    harness.expect_history(("user", "hello six seven eight"), ("assistant", "All right."))
