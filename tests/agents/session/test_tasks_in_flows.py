"""A conversation flow awaits a task: the task's model answers meanwhile, and the flow goes on behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kit.tasks import GIVE, GetAddress, said
from vivavoce.agents import Agent, ConversationFlow
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


class Flow(ConversationFlow):
    def __init__(self, where: str) -> None:
        self.where = where
        self.street = ""
        self.turns = 0

    async def ask(self, where: str) -> None:
        if where == self.where and not self.street:
            self.street = (await GetAddress([])).street

    async def on_turn_start(self, transcript: str) -> None:
        self.turns += 1
        await self.ask("on_turn_start")

    async def run(self, transcript: str) -> AsyncIterator[str]:
        await self.ask("first")
        yield "One moment. "
        await self.ask("between")
        yield f"You live in {self.street}."
        await self.ask("last")


def talk(where: str) -> SessionHarness:
    llm = ScriptedLLM([GIVE], delay=0.1)
    harness = SessionHarness(Agent("You are front.", id="front"), llm, conversation_flow=Flow(where))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 6.0, 7.0)
    harness.run(until=30.0)
    assert [request.instructions for request in llm.requests] == ["Get the address."]
    return harness


def test_a_flow_awaits_a_task_between_its_texts() -> None:
    assert said(talk("between")) == ["One moment.", "Which address?", "You live in High Street."]


def test_a_flow_awaits_a_task_before_its_first_text_and_in_its_hook() -> None:
    for where in ("first", "on_turn_start"):
        assert said(talk(where)) == ["Which address?", "One moment. You live in High Street."]


def test_a_flow_awaits_a_task_behind_its_last_text() -> None:
    harness = talk("last")
    assert said(harness) == ["One moment. You live in .", "Which address?"]
    harness.expect_outcomes("completed", "completed", "completed")
