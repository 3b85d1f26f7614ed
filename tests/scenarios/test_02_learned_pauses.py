"""Scenario 2 with a caller who pauses in mid-sentence: the delay that ends a turn follows the caller."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent, EndpointingOptions, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


def test_a_caller_who_pauses_in_mid_sentence_is_cut_off_once_and_then_waited_for() -> None:
    options = SessionOptions(endpointing=EndpointingOptions(mode="dynamic"))
    harness = SessionHarness(Agent("Be nice."), ScriptedLLM(default="All right.", delay=0.1), options=options)
    for start in (0.5, 6.5, 12.5):
        harness.caller.says("a table", start, start + 1.0)
        harness.caller.says("for two", start + 1.56, start + 2.4)  # after 0.56 s
    harness.run(until=18.0)
    turns = harness.session.turns
    assert [turn.user_text for turn in turns] == ["a table for two"] * 3
    thinking = [round(at, 6) for who, state, at in harness.states if (who, state) == ("agent", "thinking")]
    # The first two pauses were taken for the end, and the answers taken back unheard. The third was waited for.
    assert thinking[0] == 1.9
    assert [sum(start < at < start + 6 for at in thinking) for start in (0.5, 6.5, 12.5)] == [2, 2, 1]
    assert [turn.ended_by for turn in turns] == ["pause"] * 3
    # 0.71 are wanted after each pause: half of the way from 0.4, and so on
    assert [turn.endpointing_delay for turn in turns] == [pytest.approx(wait) for wait in (0.555, 0.6325, 0.67125)]
    for turn in turns:
        waits = {stage.name: stage.seconds for stage in turn.stages}
        waited = waits["vad_silence"] + waits["endpointing_wait"]
        assert waited == pytest.approx(turn.endpointing_delay)
        assert sum(waits.values()) == pytest.approx(turn.e2e_latency)
