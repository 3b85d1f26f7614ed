"""Scenario 21: sessions in one loop never touch each other."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.testing import StepItem


def make(number: int, *, fails: bool) -> SessionHarness:
    answer: list[StepItem] = [ProviderError("it broke", provider="scripted")] if fails else [0.1, f"Answer {number}."]
    harness = SessionHarness(Agent(f"Agent {number}."), ScriptedLLM(answer), userdata=number)
    harness.caller.says(f"question {number}", 0.5, 1.5)
    return harness


async def run_one(harness: SessionHarness) -> None:
    async with harness:
        await harness.until(5.0)


def run_all(harnesses: list[SessionHarness]) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            for harness in harnesses:
                group.start_soon(run_one, harness)

    run_virtual(main())


@pytest.mark.parametrize("count", [2, 50])
def test_nothing_crosses_between_sessions_and_a_failing_one_harms_no_other(count: int) -> None:
    failing = count // 2
    harnesses = [make(number, fails=number == failing) for number in range(count)]
    run_all(harnesses)
    for number, harness in enumerate(harnesses):
        question = ("user", f"question {number}")
        if number == failing:
            harness.expect_history(question).expect_outcomes("failed").expect_played()
        else:
            harness.expect_history(question, ("assistant", f"Answer {number}.")).expect_outcomes("completed")
            harness.expect_played((2.2, 0.4))
            harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.6))
        assert [event.sequence for event in harness.recording.events] == list(
            range(1, len(harness.recording.events) + 1)
        )
        assert [message.content for message in harness.llm.requests[0].context.messages()] == [f"question {number}"]
        assert harness.room.transcripts[0].text == f"question {number}"
    assert len({harness.session.id for harness in harnesses}) == count


def test_sessions_that_start_and_close_at_different_times_keep_their_own_time() -> None:
    late = make(1, fails=False)

    async def main() -> None:
        async with make(0, fails=False) as early:
            await anyio.sleep(2.2)  # the first one speaks
            async with late:
                await anyio.sleep(1.0)
                await early.session.close()
                await late.until(4.0)

    run_virtual(main())
    late.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.6))
    late.expect_played((2.2, 0.4))
