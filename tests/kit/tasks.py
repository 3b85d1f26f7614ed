"""A task that asks for an address, and an agent that awaits it in a tool: for tests of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, Field

from kit.handoff import short
from vivavoce.agents import Agent, function_tool
from vivavoce.agents.tasks import AgentTask, TaskError, TaskOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall


class Address(BaseModel):
    street: str = Field(min_length=3)
    number: int


class GetAddress(AgentTask[Address]):
    """Asks for an address; the model calls `give`."""

    def __init__(self, log: list[str], *, options: TaskOptions | None = None, says: str = "Which address?") -> None:
        super().__init__("Get the address.", id="address", options=options)
        self.log = log
        self.says = says

    async def on_enter(self) -> None:
        self.log.append("task enters")
        if self.says:
            await self.session.say(self.says)

    async def on_exit(self) -> None:
        self.log.append("task leaves")

    @function_tool
    async def give(self, street: str, number: Any) -> str:
        """Give the address."""
        self.complete({"street": street, "number": number})  # type: ignore[arg-type]
        return "thanks"

    @function_tool
    async def refuse(self) -> None:
        """Note that the caller does not want to."""
        self.decline("rather not")


class Front(Agent):
    """An agent whose `order` tool awaits the task."""

    def __init__(self, log: list[str], make: Callable[[], AgentTask[Any]]) -> None:
        super().__init__("You are front.", id="front")
        self.log = log
        self.make = make

    async def on_exit(self) -> None:
        self.log.append("front leaves")

    @function_tool
    async def order(self) -> str:
        """Order something."""
        try:
            result = await self.make()
        except TaskError as error:
            self.log.append(str(error))
            raise
        self.log.append(f"got {result!r}")
        return f"ordered to {result!r}"


def call(name: str, arguments: str = "{}", call_id: str = "c") -> ToolCall:
    """A call of that tool."""
    return ToolCall(call_id=f"{call_id}_{name}", name=name, arguments=arguments)


ORDER = call("order")
GIVE = call("give", '{"street": "High Street", "number": 5}')


def ordering(
    *script: Any, options: TaskOptions | None = None, says: str = "Which address?", **given: Any
) -> tuple[SessionHarness, ScriptedLLM, list[str]]:
    """A caller who orders at 0.5, committed at 1.9, so that the model calls at 2.0; with a log of the calls."""
    log: list[str] = []
    front = Front(log, lambda: GetAddress(log, options=options, says=says))
    llm = ScriptedLLM(*script, delay=0.1)
    harness = SessionHarness(front, llm, **given)
    harness.caller.says("order please", 0.5, 1.5)
    return harness, llm, log


def items(harness: SessionHarness) -> list[str]:
    """The history, each item in a word or two."""
    return [short(item) for item in harness.session.history.items]


def said(harness: SessionHarness) -> list[str]:
    """What the caller heard the agents say."""
    return [text for role, text in harness.messages if role == "assistant"]
