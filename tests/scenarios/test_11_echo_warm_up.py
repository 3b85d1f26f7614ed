"""Scenario 11 for the first seconds of a call: the client's echo canceller has not converged yet."""

from __future__ import annotations

from vivavoce.agents import Agent, InterruptionOptions, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness

GREETING = "one two three four five six seven eight nine ten."


class Host(Agent):
    async def on_enter(self) -> None:
        await self.session.say(GREETING)


def warming(*answers: str, echo_warm_up: float = 1.5) -> SessionHarness:
    options = SessionOptions(interruption=InterruptionOptions(echo_warm_up=echo_warm_up))
    return SessionHarness(Host("Greet."), ScriptedLLM(*answers, delay=0.1), options=options)


def test_the_greetings_own_echo_does_not_cut_it_and_what_it_said_is_answered_afterwards() -> None:
    harness = warming("Pardon?")
    harness.caller.says("one two three", 0.4, 1.2)  # heard from 0.2 to 2.2
    harness.run(until=5.0)
    harness.expect_played((0.2, 2.0), (2.5, 0.2)).expect_outcomes("completed", "completed")
    harness.expect_history(("assistant", GREETING), ("user", "one two three"), ("assistant", "Pardon?"))


def test_a_voice_after_the_warm_up_cuts_the_greeting() -> None:
    harness = warming("All right.", echo_warm_up=0.5)  # it ends at 0.7
    harness.caller.says("one", 0.3, 0.6, final_at=0.9)
    harness.caller.says("wait stop", 1.0, 1.6)
    harness.run(until=5.0)
    harness.expect_played((0.2, 1.35), (2.3, 0.4)).expect_outcomes("interrupted", "completed")  # paused at 1.5
    heard = "one two three four five six"
    harness.expect_history(("assistant", heard), ("user", "one wait stop"), ("assistant", "All right."))
