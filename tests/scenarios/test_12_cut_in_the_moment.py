"""Scenario 12, to the turn of the event loop: a cut in the very moment in which the awaited part of a speech comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from vivavoce.agents import Agent, CompletedTurn, StopResponse, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import HANG, ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import StepItem


class Held(ScriptedLLM):
    """A model that holds back its script, or the end of it, until the test lets it go."""

    def __init__(self, *step: StepItem, is_end_held: bool = False) -> None:
        super().__init__([*step])
        self._is_end_held = is_end_held
        self._gate = asyncio.Event()

    def let_go(self) -> None:
        self._gate.set()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        if not self._is_end_held:
            await self._gate.wait()
        async for event in super().generate(request):
            yield event
        await self._gate.wait()


class Cashier(Agent):
    payments = 0

    @function_tool
    async def pay(self) -> str:
        """Pay."""
        self.payments += 1
        return "paid"


PAY = ToolCall(call_id="c1", name="pay", arguments="{}")


@pytest.mark.parametrize(
    ("step", "is_end_held"),
    [(["One two three. Four", HANG], False), ([PAY], False), ([PAY], True)],
    ids=["words", "call", "end_after_a_call"],
)
def test_a_speech_that_is_cut_as_its_answer_comes_neither_sounds_nor_calls_a_tool(
    step: list[StepItem], is_end_held: bool
) -> None:
    agent, model = Cashier("Help."), Held(*step, is_end_held=is_end_held)
    harness = SessionHarness(agent, model)
    harness.caller.says("a question", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        speech = harness.session.say("Other words.", when_busy="interrupt")
        model.let_go()
        await speech
        assert speech.outcome == "completed"

    harness.run(scenario, until=8.0)
    harness.expect_outcomes("cancelled", "completed")
    harness.expect_history(("user", "a question"), ("assistant", "Other words."))
    assert harness.recording.of(ErrorOccurred) == []
    assert agent.payments == 0


@pytest.mark.parametrize("drops", [False, True])
def test_a_hook_that_ends_as_its_turn_goes_on_changes_nothing_of_the_longer_turn(drops: bool) -> None:
    class Editor(Agent):
        calls = 0
        gate: asyncio.Event

        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            self.calls += 1
            if self.calls == 1:
                await self.gate.wait()
                turn.text = "edited"
                if drops:
                    raise StopResponse

    agent = Editor("Help.")
    agent.gate = asyncio.Event()
    harness = SessionHarness(agent, ScriptedLLM([0.1, "Fine."]))
    harness.caller.says("first part", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        harness.session.input.text("second part")
        agent.gate.set()

    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "first part second part"), ("assistant", "Fine."))
