"""Scenario 20: a session that closes hears the caller's last words, keeps them, and answers none of them."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import Closed
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.testing import HANG


class Attentive(Agent):
    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        raise AssertionError("nothing is answered any more")


def closed_at(harness: SessionHarness) -> float:
    return round(harness.recording.of(Closed)[0].at, 6)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_final_that_is_due_shortly_after_the_close_is_in_the_history_but_not_where_the_room_is_left(
    leaves: bool,
) -> None:
    harness = SessionHarness(Attentive("Help."), ScriptedLLM("Never said."))
    harness.caller.says("thanks, goodbye", 0.5, 1.5, final_at=2.1)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.8)
        await (harness.session.leave() if leaves else harness.session.close())

    harness.run(scenario)
    harness.expect_history(*([] if leaves else [("user", "thanks, goodbye")]))
    assert closed_at(harness) == (1.8 if leaves else 2.1)
    assert harness.llm.requests == []


def test_a_final_that_is_due_after_its_turn_was_committed_as_an_interim_amends_it_before_the_close_is_over() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([HANG]))
    harness.caller.says("a table for two", 0.5, 1.5, final_at=2.9, interims=[(1.2, "a table")])

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.7)
        assert len(harness.llm.requests) == 1
        await harness.session.close()

    harness.run(scenario)
    harness.expect_history(("user", "a table for two"))
    assert closed_at(harness) == 2.9


def test_an_idle_session_closes_at_once() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hello."))
    harness.caller.says("hello", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(9.0)
        await harness.session.close()

    harness.run(scenario)
    assert closed_at(harness) == 9.0
