"""Scenario 1: a plain turn, with exact times, on both kinds of pipeline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedTTS, ScriptedTTSOptions, SessionHarness
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

ANSWER = "Sure, I can help you with that right away, madam."


def cascading() -> SessionHarness:
    tts = ScriptedTTS(first_byte=0.2, options=ScriptedTTSOptions(duration=2.0))
    return SessionHarness(Agent("Be nice."), ScriptedLLM([0.1, ANSWER]), tts=tts)


def realtime() -> SessionHarness:
    model = ScriptedRealtimeModel([0.3, ANSWER], capabilities=RealtimeCapabilities(turn_detection=frozenset({"local"})))
    return SessionHarness(Agent("Be nice."), model=model)


@pytest.mark.parametrize("make", [cascading, realtime])
def test_a_turn_is_answered_at_the_exact_times(make: Callable[[], SessionHarness]) -> None:
    harness = make()
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)
    harness.run(until=6.0)
    harness.expect_states("user", ("speaking", 0.5), ("idle", 2.5), ("listening", 3.2), ("idle", 5.2))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 2.9), ("speaking", 3.2), ("idle", 5.2))
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER))
    harness.expect_played((3.2, 2.0)).expect_outcomes("completed")


def test_a_turn_that_the_models_server_ends_is_answered_when_it_says_so() -> None:
    model = ScriptedRealtimeModel()
    harness = SessionHarness(Agent("Be nice."), model=model)
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.9)
        model.start_reply([0.3, ANSWER])

    harness.run(scenario, until=6.0)
    harness.expect_states("user", ("speaking", 0.5), ("idle", 2.5), ("listening", 3.2), ("idle", 5.2))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 2.9), ("speaking", 3.2), ("idle", 5.2))
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER))
    harness.expect_played((3.2, 2.0)).expect_outcomes("completed")
    assert model.connections[0].record.accepted == ["remote_1"]
