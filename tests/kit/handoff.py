"""A front desk that hands callers over to billing: the agents of the handoff tests, and their outcome."""

from __future__ import annotations

from typing import Any

from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.chat_context import AgentHandoff, ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall


class Clerk(Agent):
    """Says given texts as it comes and goes; `log` is shared and has the events in order."""

    def __init__(self, id: str, log: list[str], *, enters: str = "", leaves: str = "") -> None:
        super().__init__(f"You are {id}.", id=id)
        self.log = log
        self.enters, self.leaves = enters, leaves
        self.to: Any = None
        """The return value of `transfer`."""

    @function_tool
    async def transfer(self) -> Any:
        """Hand the caller over."""
        self.log.append(f"{self.id} transfers")
        return self.to

    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        return "found"

    async def on_enter(self) -> None:
        self.log.append(f"{self.id} enters")
        if self.enters:
            await self.session.say(self.enters)

    async def on_exit(self) -> None:
        self.log.append(f"{self.id} leaves")
        if self.leaves:
            await self.session.say(self.leaves)

    async def cleanup(self) -> None:
        self.log.append(f"{self.id} cleans up")


TRANSFER = ToolCall(call_id="c1", name="transfer", arguments="{}")


class Desk:
    """A front desk, a billing clerk, and the session that the front desk begins. The caller asks at 0.5, heard 1.9."""

    def __init__(self, *script: Any, enters: str = "", leaves: str = "", options: SessionOptions | None = None) -> None:
        self.log: list[str] = []
        self.front = Clerk("front", self.log, leaves=leaves)
        self.billing = Clerk("billing", self.log, enters=enters)
        self.front.to = self.billing
        self.llm = ScriptedLLM(*script, delay=0.1)
        self.harness = SessionHarness(self.front, self.llm, options=options)

    def asked(self) -> Desk:
        """The caller asks for billing; committed at 1.9, so that the model calls at 2.0."""
        self.harness.caller.says("billing please", 0.5, 1.5)
        return self

    @property
    def items(self) -> list[str]:
        """The history, each item in a word or two."""
        return [short(item) for item in self.harness.session.history.items]

    @property
    def errors(self) -> list[str]:
        """The errors, by source."""
        return [f"{event.source}: {type(event.error).__name__}" for event in self.harness.recording.of(ErrorOccurred)]


def short(item: object) -> str:
    if isinstance(item, ChatMessage):
        return f"{item.role}: {item.content}"
    if isinstance(item, AgentHandoff):
        return f"{item.old_agent} -> {item.new_agent}"
    return f"output: {item.output}" if isinstance(item, FunctionCallOutput) else type(item).__name__


def stages(turn: TurnRecord) -> dict[str, float]:
    return {stage.name: round(stage.seconds, 6) for stage in turn.stages}


HANDED_OVER = "output: The conversation is handed over to 'billing'."
