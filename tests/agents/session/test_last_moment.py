"""Actions of the user in the very moment in which a speech ends."""

from __future__ import annotations

import anyio.lowlevel
import pytest

from vivavoce.agents import Agent
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


@pytest.mark.parametrize("steps", range(12))
def test_words_typed_in_the_moment_in_which_an_answer_ends_are_of_its_turn_or_of_the_next(steps: int) -> None:
    harness = SessionHarness(Agent("Be nice."), ScriptedLLM([0.1], "Hello."))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        harness.session.input.text("one")
        await harness.until(1.1)
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        harness.session.input.text("two")

    harness.run(scenario, until=5.0)
    completed = [event.record.turn_id for event in harness.recording.of(TurnCompleted)]
    users = [text for role, text in harness.messages if role == "user"]
    assert (users, completed) in ((["one two"], ["turn_1"]), (["one", "two"], ["turn_1", "turn_2"]))
