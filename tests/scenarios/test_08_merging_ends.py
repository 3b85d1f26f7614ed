"""A caller who says "hello?" again and again does not starve a slow model."""

from __future__ import annotations

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


def test_an_impatient_caller_does_not_starve_a_slow_model() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(*["Here I am."] * 5, delay=3.0))
    for number in range(4):
        harness.caller.says("hello", 0.5 + 2.5 * number, 1.0 + 2.5 * number)
    harness.run(until=18.0)
    harness.expect_history(
        ("user", "hello hello hello"), ("assistant", "Here I am."), ("user", "hello"), ("assistant", "Here I am.")
    )
    harness.expect_outcomes("completed", "completed")
