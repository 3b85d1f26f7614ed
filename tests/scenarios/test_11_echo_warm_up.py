"""Scenario 11 for the first seconds of a call: the client's echo canceller has not converged yet."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from vivavoce.agents import Agent, InterruptionOptions, SessionOptions, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.pipelines.llm.tools import ToolCall

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


class Clerk(Agent):
    @function_tool
    async def look_up(self) -> str:
        """Look it up."""
        await anyio.sleep(2.0)
        return "a table"


def test_words_over_a_preamble_whose_tool_runs_on_are_answered_and_hang_nothing() -> None:
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    model = ScriptedLLM([0.1, "One moment please.", call], "It is for two.", default="There is one.")
    options = SessionOptions(interruption=InterruptionOptions(echo_warm_up=3.0))
    harness = SessionHarness(Clerk("Help."), model, options=options)
    harness.caller.says("a table please", 0.5, 1.5)
    harness.caller.says("for two", 2.3, 2.6)
    harness.run(until=8.0)
    users = [text for role, text in harness.messages if role == "user"]
    assert users == ["a table please", "for two"]
    assert harness.recording.of(ErrorOccurred) == []


def broken_rule(now: float) -> None:
    """Changes nothing; represents a bug."""


def due_at_one(_: object) -> Iterator[Deadline]:
    yield Deadline(1.0, broken_rule)


def test_a_rule_of_the_turn_machine_that_is_at_fault_is_an_error_event_and_the_call_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(InterruptionGuard, "deadlines", due_at_one)
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Fine.", delay=0.1))
    harness.caller.says("hello", 1.5, 2.0)
    harness.expects_error("turn").run(until=5.0)
    harness.expect_history(("user", "hello"), ("assistant", "Fine."))
    assert {(event.source, event.is_recovered) for event in harness.recording.of(ErrorOccurred)} == {("turn", True)}
    assert "broken_rule was due at 1.000 s" in str(harness.recording.of(ErrorOccurred)[0].error)
