"""Scenario 2 with a button: the application ends turns, and long turns end by themselves."""

from __future__ import annotations

import logging

import pytest

from vivavoce.agents import Agent, AgentSession, EndpointingOptions, SessionOptions
from vivavoce.agents.events import TranscriptMissing, UserTurnLimitReached
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.core.errors import CapabilityError


def with_endpointing(*answers: str, **options: object) -> SessionHarness:
    chosen = SessionOptions(endpointing=EndpointingOptions(**options))  # type: ignore[arg-type]
    return SessionHarness(Agent("Be nice."), ScriptedLLM(*answers, delay=0.1), options=chosen)


def test_with_a_button_a_turn_ends_when_it_is_released() -> None:
    harness = with_endpointing("All right then.", mode="manual")
    harness.caller.says("a table", 0.5, 1.5)
    harness.caller.says("for two", 4.5, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        harness.session.input.commit_turn()

    harness.run(scenario, until=9.0)
    harness.expect_history(("user", "a table for two"), ("assistant", "All right then.")).expect_outcomes("completed")
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 6.0), ("speaking", 6.3), ("idle", 6.9))
    assert harness.session.turns[0].ended_by == "request"
    assert harness.session.turns[0].endpointing_delay is None


def test_with_a_button_released_in_mid_speech_the_words_are_waited_for() -> None:
    harness = with_endpointing("All right then.", mode="manual")
    harness.caller.makes_noise(0.5, 2.0)
    harness.caller.is_recognised("a table", 2.3)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.9)
        harness.session.input.commit_turn()
        harness.session.input.mute()
        await harness.until(3.0)
        harness.session.input.mute(False)

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "a table"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 2.3), ("speaking", 2.6), ("idle", 3.2))
    assert harness.recording.of(TranscriptMissing) == []


def test_with_a_button_a_turn_that_is_cleared_leaves_no_trace() -> None:
    harness = with_endpointing("All right then.", mode="manual")
    harness.caller.says("never mind", 0.5, 1.5)
    harness.caller.says("a table", 3.0, 4.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        harness.session.input.clear_turn()
        await harness.until(4.5)
        harness.session.input.commit_turn()

    harness.run(scenario, until=7.0)
    harness.expect_history(("user", "a table"), ("assistant", "All right then."))
    assert [m.content for m in harness.llm.requests[0].context.messages("user")] == ["a table"]


def test_a_model_whose_server_ends_turns_cannot_wait_for_a_button() -> None:
    options = SessionOptions(endpointing=EndpointingOptions(mode="manual"))
    pipeline = SessionHarness(Agent("x"), model=ScriptedRealtimeModel()).pipeline
    with pytest.raises(CapabilityError, match="manual"):
        AgentSession(Agent("x"), pipeline, options=options)


def test_with_a_button_nothing_is_waited_for_by_configuration(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        with_endpointing(mode="manual", min_delay=2.5).run(until=0.1)
    assert "add up to more than" not in caplog.text


def test_a_caller_who_talks_on_and_on_is_answered_at_the_limit_and_again_at_the_end() -> None:
    harness = with_endpointing("One moment.", "Now the rest.", max_turn_duration=5.0)
    interims = [(2.0, "it all began"), (5.0, "it all began when I was young")]
    harness.caller.says("it all began when I was young", 0.5, 9.0, final_at=5.7, interims=interims)
    harness.caller.is_recognised("and my dog ran away", 7.0, is_final=False)
    harness.caller.is_recognised("and my dog ran away", 9.2)
    harness.run(until=14.0)
    harness.expect_history(
        ("user", "it all began when I was young"),
        ("assistant", "One moment."),
        ("user", "and my dog ran away"),
        ("assistant", "Now the rest."),
    ).expect_outcomes("completed", "completed")
    harness.expect_played((5.8, 0.4), (9.7, 0.6))  # over the caller who continues; then after the end at 9.0
    (reached,) = harness.recording.of(UserTurnLimitReached)
    assert (reached.limit, reached.words, reached.seconds) == ("max_turn_duration", 7, 5.0)
    assert (round(reached.at, 6), reached.turn_id) == (5.5, harness.session.turns[0].turn_id)
    assert [turn.ended_by for turn in harness.session.turns] == ["max_turn_duration", "pause"]


@pytest.mark.parametrize(("mode", "committed_at"), [("fixed", 1.8), ("manual", 4.0)])
def test_the_recognisers_end_of_turn_ends_it_before_the_delay_unless_a_button_does(
    mode: str, committed_at: float
) -> None:
    harness = with_endpointing("All right then.", mode=mode)
    harness.caller.says("a table", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.8)
        harness.stt.end_of_turn()
        await harness.until(4.0)
        harness.session.input.commit_turn()

    harness.run(scenario, until=7.0)
    harness.expect_history(("user", "a table"), ("assistant", "All right then.")).expect_outcomes("completed")
    thinking = [round(at, 6) for who, state, at in harness.states if (who, state) == ("agent", "thinking")]
    assert thinking == [committed_at]
    assert harness.session.turns[0].ended_by == ("recogniser" if mode == "fixed" else "request")
