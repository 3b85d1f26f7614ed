"""Scenarios 23 to 26: heard text without word times, typed input, who is in the room, times that add up."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall

TEN_WORDS = "one two three four five six seven eight nine ten."


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_heard_text_without_word_times_is_within_a_word_of_the_truth(share: float) -> None:
    harness = SessionHarness(Agent("Count."), tts=ScriptedTTS(emits_words=False))

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say(TEN_WORDS)
        await harness.until(0.2 + 2.0 * share)
        await harness.session.interrupt()
        words = len(handle.heard_text.split())
        assert abs(words - 10 * share) <= 1
        assert TEN_WORDS.startswith(handle.heard_text)

    harness.run(scenario)


def test_typed_text_is_answered_like_a_spoken_turn() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.types("hello", 1.0)
    harness.run(until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi there.")).expect_outcomes("completed")
    harness.expect_states("agent", ("thinking", 1.0), ("speaking", 1.3), ("idle", 1.7))


def test_typed_text_interrupts_and_keeps_the_order_of_what_was_heard() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Sure.", delay=0.1), tts=ScriptedTTS(emits_words=True))

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(TEN_WORDS)
        await harness.until(1.25)
        harness.session.input.text("something else")

    harness.run(scenario, until=4.0)
    harness.expect_history(
        ("assistant", "one two three four five"), ("user", "something else"), ("assistant", "Sure.")
    ).expect_outcomes("interrupted", "completed")


def test_a_committed_turn_does_not_wait_for_silence_and_a_cleared_one_is_gone() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Sure.", delay=0.1))
    harness.caller.makes_noise(0.5, 6.0)
    harness.caller.is_recognised("forget this", 1.0)
    harness.caller.is_recognised("take this", 3.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        harness.session.input.clear_turn()
        await harness.until(4.0)
        harness.session.input.commit_turn()

    harness.run(scenario, until=5.0)
    assert [message for message in harness.messages if message[0] == "user"] == [("user", "take this")]


def test_a_caller_who_comes_back_within_the_grace_time_goes_on() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.leaves(1.0)
    harness.caller.joins(9.0)
    harness.caller.says("hello", 10.0, 11.0)
    harness.run(until=25.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi there."))


def test_a_caller_who_stays_away_ends_the_session() -> None:
    harness = SessionHarness(Agent("Help."))
    harness.caller.leaves(1.0)

    async def scenario(harness: SessionHarness) -> None:
        report = await harness.session.wait_closed()
        assert report.reason == "participant_left"
        assert harness.now == pytest.approx(11.0)

    harness.run(scenario)


def test_a_second_participant_changes_nothing() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.joins(0.2, identity="somebody else")
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi there.")).expect_played((2.2, 0.4))


def test_a_room_that_ends_closes_the_session() -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        harness.room.end("gone")
        assert (await harness.session.wait_closed()).reason == "room_closed"

    harness.run(scenario)


class Desk(Agent):
    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        await anyio.sleep(0.7)
        return "found"


def stages(harness: SessionHarness) -> dict[str, float]:
    record = next(turn for turn in harness.session.turns if turn.kind == "turn")
    assert record.e2e_latency is not None
    assert sum(stage.seconds for stage in record.stages) == pytest.approx(record.e2e_latency, abs=1e-9)
    return {stage.name: stage.seconds for stage in record.stages}


def test_the_stages_of_a_turn_add_up_to_the_silence_that_the_caller_felt() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.15, "Hi there."]), tts=ScriptedTTS(first_byte=0.25))
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.75)
    harness.run(until=6.0)
    found = stages(harness)
    assert sum(found.values()) == pytest.approx(harness.played[0].start - 2.5, abs=1e-6)
    assert found == {
        "vad_silence": pytest.approx(0.2, abs=1e-3),
        "transcript_wait": pytest.approx(0.05, abs=1e-3),
        "endpointing_wait": pytest.approx(0.15, abs=1e-3),
        "model_first_token": pytest.approx(0.15, abs=1e-3),
        "tts_first_byte": pytest.approx(0.25, abs=1e-3),
    }


def test_the_stages_of_a_turn_with_tools_add_up_too() -> None:
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = SessionHarness(Desk("Help."), ScriptedLLM([0.1, call], [0.3, "Found."]), tts=ScriptedTTS(first_byte=0.2))
    harness.caller.says("where is it", 0.5, 2.5)
    harness.run(until=8.0)
    found = stages(harness)
    assert sum(found.values()) == pytest.approx(harness.played[0].start - 2.5, abs=1e-6)
    assert found["tools"] == pytest.approx(0.7, abs=1e-3)
    assert found["model_first_token"] == pytest.approx(0.4, abs=1e-3)  # both steps
    assert found["tts_first_byte"] == pytest.approx(0.2, abs=1e-3)
    assert found.get("unattributed", 0.0) <= 0.005


def test_the_wait_of_an_answer_that_was_held_back_is_a_stage_of_its_own() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.says("hello there", 0.5, 2.5)
    harness.caller.makes_noise(3.0, 3.2)
    harness.run(until=6.0)
    found = stages(harness)
    assert sum(found.values()) == pytest.approx(0.9, abs=1e-6)
    assert found["queue"] == pytest.approx(0.2, abs=1e-3)
