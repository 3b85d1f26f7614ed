"""No message of the history is ever empty, however a turn came to have no words."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import UserTranscript
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


def assert_no_empty_message(harness: SessionHarness) -> None:
    assert all(message.content.strip() for message in harness.session.history.messages())


def test_a_final_of_white_space_is_answered_by_nobody() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Yes?", delay=0.1))
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised(" \n", 1.7)
    harness.run(until=5.0)
    harness.expect_history().expect_outcomes()
    assert harness.llm.requests == []


@pytest.mark.parametrize("left", ["", " "])
def test_a_hook_that_empties_the_text_leaves_no_message(left: str) -> None:
    class Censor(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = left

    harness = SessionHarness(Censor("Help."), ScriptedLLM("Yes?", delay=0.1))
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=5.0)
    harness.expect_history(("assistant", "Yes?")).expect_outcomes("completed")


def test_a_turn_cleared_after_its_guess_was_corrected_is_answered_with_the_correction() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([5.0, "Never."], "A cable, yes.", delay=0.1))
    harness.caller.makes_noise(0.5, 2.0)
    harness.caller.is_recognised("a table", 1.0, is_final=False)
    harness.caller.is_recognised("a cable", 1.3)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.1)
        harness.session.input.commit_turn()
        await harness.until(1.4)
        harness.session.input.clear_turn()

    harness.run(scenario, until=8.0)
    assert_no_empty_message(harness)
    harness.expect_history(("user", "a cable"), ("assistant", "A cable, yes."))


@pytest.mark.parametrize("text", [".", "…", "♪ ♪", "?"])
def test_a_final_of_punctuation_or_symbols_only_is_answered_by_nobody(text: str) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Yes?", delay=0.1))
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised(text, 1.7)
    harness.run(until=5.0)
    harness.expect_history().expect_outcomes()
    assert harness.recording.of(UserTranscript) == []


def test_text_typed_in_noise_is_answered_at_once() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Yes, hello.", delay=0.1))
    harness.caller.makes_noise(0.5, 8.0)
    harness.caller.types("hello", 2.0)
    harness.run(until=10.0)
    harness.expect_history(("user", "hello"), ("assistant", "Yes, hello."))
    assert [stretch.start for stretch in harness.played] == [pytest.approx(2.3, abs=0.05)]
