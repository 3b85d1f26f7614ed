"""Scenario 7 for sounds of any length: voiced time counts, not the time until the VAD is sure of the end."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents import Agent, InterruptionOptions, SessionOptions
from vivavoce.agents.events import FalseInterruption, TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.vad.base import VADOptions

TEN_WORDS = "one two three four five six seven eight nine ten."


def counting(*, min_silence: float = 0.2, reports_edges: bool = True, **interruption: Any) -> SessionHarness:
    options = SessionOptions(interruption=InterruptionOptions(**interruption))
    harness = SessionHarness(Agent("Count."), ScriptedLLM("All right.", delay=0.1), options=options)
    vad = harness.pipeline.components.vad  # type: ignore[attr-defined]
    assert isinstance(vad, ScriptedVAD)
    vad.options, vad.reports_edges = VADOptions(min_silence=min_silence), reports_edges
    return harness


async def count(harness: SessionHarness) -> None:
    """Say ten words, heard from 1.2 to 3.2."""
    await harness.until(1.0)
    _ = harness.session.say(TEN_WORDS)


@pytest.mark.parametrize("mode", ["pause", "immediate"])
@pytest.mark.parametrize("reports_edges", [True, False])
@pytest.mark.parametrize("min_silence", [0.2, 0.5])
@pytest.mark.parametrize("seconds", [0.06, 0.36, 0.48])
def test_a_cough_of_less_than_min_duration_does_not_touch_the_agent(
    seconds: float, min_silence: float, reports_edges: bool, mode: str
) -> None:
    harness = counting(min_silence=min_silence, reports_edges=reports_edges, mode=mode)
    harness.caller.makes_noise(1.6, 1.6 + seconds)
    harness.run(count, until=6.0)
    harness.expect_played((1.2, 2.0)).expect_outcomes("completed")
    assert harness.recording.of(FalseInterruption) == []


@pytest.mark.parametrize(("reports_edges", "min_silence", "paused_at"), [(True, 0.5, 2.1), (False, 0.3, 2.4)])
def test_speech_of_min_duration_pauses_the_agent_as_soon_as_it_is_known(
    reports_edges: bool, min_silence: float, paused_at: float
) -> None:
    harness = counting(min_silence=min_silence, reports_edges=reports_edges)
    harness.caller.makes_noise(1.6, 2.5)
    harness.run(count, until=8.0)
    first = harness.played[0]
    assert first.start + first.seconds == pytest.approx(paused_at + 0.05, abs=0.021)  # with its fade


def test_immediate_mode_waits_for_min_words() -> None:
    harness = counting(mode="immediate", min_words=2)
    harness.caller.says("wait", 1.6, 2.2)
    harness.run(count, until=6.0)
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "wait"), ("assistant", TEN_WORDS))
    harness = counting(mode="immediate", min_words=2)
    harness.caller.says("wait please", 1.6, 2.2)
    harness.run(count, until=6.0)
    harness.expect_outcomes("interrupted", "completed")


@pytest.mark.parametrize(("seconds", "heard_at"), [(0.2, 2.4), (0.4, 3.1)])
def test_what_holds_an_answer_back_is_measured_by_its_voiced_time(seconds: float, heard_at: float) -> None:
    harness = counting(min_silence=0.5)
    harness.caller.says("a table", 0.5, 1.0)  # the answer would be heard at 1.8, the end of the speech is known at 1.5
    harness.caller.makes_noise(1.7, 1.7 + seconds)
    harness.run(until=6.0)
    assert harness.played[0].start == pytest.approx(heard_at)
    harness.expect_history(("user", "a table"), ("assistant", "All right."))


@pytest.mark.parametrize("text", ["", "wait for me"])
def test_an_onset_in_the_moment_of_the_first_frame_keeps_the_agent_thinking(text: str) -> None:
    harness = SessionHarness(Agent("Count."), ScriptedLLM("one two three.", delay=0.1, default="Fine."))
    harness.caller.says("hello", 0.5, 1.0)  # answered at 1.7
    if text:
        harness.caller.says(text, 1.64, 3.0)  # reported at 1.7
    else:
        harness.caller.makes_noise(1.64, 3.0)
    harness.run(until=8.0)
    heard_at = 3.7 if text else 4.0
    assert [stretch.start for stretch in harness.played] == [heard_at]
    assert [at for side, state, at in harness.states if (side, state) == ("agent", "speaking")] == [heard_at]
    assert [text for role, text in harness.messages if role == "user"] == [f"hello {text}".strip()]
    last = harness.recording.of(TurnCompleted)[-1].record
    assert last.first_audio_at == pytest.approx(heard_at)
    assert sum(stage.seconds for stage in last.stages) == pytest.approx(last.e2e_latency)
