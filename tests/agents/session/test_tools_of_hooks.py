"""A hook of the caller's turn asks for a reply whose tool hands off, awaits a task or changes a component."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness
from vivavoce.agents import Agent, CompletedTurn, function_tool
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, ToolCall

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])
AWAITED = pytest.mark.parametrize("is_awaited", [False, True], ids=["asked", "awaited"])


class Sales(Agent):
    """Takes over."""

    async def on_enter(self) -> None:
        await self.session.say("Sales here.")


class Ask(AgentTask[str]):
    """Asks for a name."""

    async def on_enter(self) -> None:
        await self.session.say("Your name?")
        self.complete("Bob")


class Desk(Agent):
    """Its hook asks for a reply, whose tool does what `act` says; `outcomes` has the results of changes."""

    def __init__(self, act: str, *, is_awaited: bool = False) -> None:
        super().__init__("Help.")
        self.act = act
        self.is_awaited = is_awaited
        self.outcomes: list[Any] = []

    @function_tool
    async def work(self) -> Any:
        "Work."
        if self.act == "hands off":
            return Sales("Sell.")
        if self.act == "awaits a task":
            return await Ask("Ask.")
        if self.act == "changes":
            change = self.session.update_components(tts=ScriptedTTS())
            await change
            self.outcomes.append(change.outcome)
        else:
            await anyio.sleep(2.0)
        return "done"

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        handle = self.session.reply("Work.")
        if self.is_awaited:
            await handle


def run(kind: type[SessionHarness], desk: Desk) -> tuple[SessionHarness, ScriptedLLM, list[str]]:
    """Let the caller say a sentence; return the agent's words after 10 s too."""
    calls = [ToolCall(call_id="call_1", name="work", arguments="{}")]
    llm = ScriptedLLM(calls, "One.", "Two.")
    harness = kind(desk, llm)
    harness.caller.says("book a table", 1.0, 2.0)
    harness.run(until=10.0)
    return harness, llm, [text for role, text in harness.messages if role == "assistant"]


@BOTH
@AWAITED
def test_its_tool_may_hand_off(kind: type[SessionHarness], is_awaited: bool) -> None:
    harness, _, said = run(kind, Desk("hands off", is_awaited=is_awaited))
    assert said == ["Sales here.", "One."]
    assert harness.session.agent.id == "Sales"


@BOTH
@AWAITED
def test_its_tool_may_await_a_task(kind: type[SessionHarness], is_awaited: bool) -> None:
    _, _, said = run(kind, Desk("awaits a task", is_awaited=is_awaited))
    assert said == ["Your name?", "One.", "Two."]


@BOTH
@AWAITED
def test_its_tool_may_change_a_component(kind: type[SessionHarness], is_awaited: bool) -> None:
    desk = Desk("changes", is_awaited=is_awaited)
    _, _, said = run(kind, desk)
    assert desk.outcomes == ["completed"]
    assert said == ["One.", "Two."]


@BOTH
def test_the_answer_is_generated_after_its_second_step(kind: type[SessionHarness]) -> None:
    _, llm, said = run(kind, Desk("works"))
    assert said == ["One.", "Two."]
    assert len(llm.requests) == 3
