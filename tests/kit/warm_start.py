"""Runs one call on scripted providers in this process and prints, as JSON, the modules imported after its start.

Arguments of `main`: the pipeline (`cascading` or `realtime`), then any of `tools` (agents with tools, and a handoff),
`late` (the agent with tools comes by `update_agent()`), `mcp` (a server beside them), `telemetry` (spans into memory).
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Annotated, Any

from kit.realtime import realtime_of
from vivavoce.agents import Agent, RunContext, SessionOptions, ToolError, function_tool
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall

EMOJI_AND_MARKDOWN = "It is **done** 👍, see [our page](https://www.vivavoce.dev/x)."


class Imports:
    """A meta path finder that finds nothing and records each import and its origin."""

    def __init__(self) -> None:
        self.noted: dict[str, str] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Record that `name` is not loaded yet; imports in the preparing thread delay no caller."""
        if threading.current_thread().name.startswith("preparing"):
            return None
        frames = [f for f in traceback.extract_stack() if "importlib" not in f.filename and f.filename != __file__]
        self.noted.setdefault(name, f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "")
        return None


class Waiter(Agent):
    """Takes over."""

    def __init__(self, servers: Sequence[Any] = ()) -> None:
        super().__init__("Serve.", mcp_servers=servers)

    @function_tool
    async def order(self, dish: Annotated[str, "What is wanted"], count: int = 1) -> dict[str, Any]:
        """Order a dish."""
        return {"dish": dish, "count": count}


class Host(Agent):
    """Has tools of every kind."""

    def __init__(self, waiter: Agent) -> None:
        super().__init__("Greet.")
        self.waiter = waiter

    async def on_enter(self) -> None:
        """Greet the caller."""
        await self.session.say("Hello.")

    @function_tool
    async def book(self, context: RunContext, people: int) -> dict[str, Any]:
        """Book a table, with a filler."""
        _ = context.session.say("One *moment*.")
        return {"people": people}

    @function_tool
    def look_up(self, name: str) -> str:
        """Look a guest up, in a thread."""
        raise ToolError(f"There is no {name}.")

    @function_tool
    async def fail(self) -> str:
        """Raise."""
        raise RuntimeError("oh")

    @function_tool
    async def hand_over(self) -> Agent:
        """Hand over to the waiter."""
        return self.waiter


def _call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id=f"call-{name}", name=name, arguments=arguments)


async def _turns(harness: SessionHarness, waiter: Agent, features: Sequence[str]) -> None:
    session = harness.session
    await harness.user("hello")
    await harness.user("hello again", spoken=True)
    if "late" in features:
        await session.update_agent(waiter)
    elif "tools" in features:
        await harness.user("a table for two")
        await harness.user("the waiter please")
    if waiter is session.agent:
        await harness.user("soup please")
    await session.say("And **that** is that.")
    speech = session.reply("Say good bye, and take your time.")
    await harness.until(harness.now + 1.0)
    await session.interrupt()
    await speech


def _script(features: Sequence[str]) -> list[Any]:
    bye = "Good bye, it was a pleasure to have you with us, and do come again."
    order = [[_call("order", '{"dish": "soup"}'), _call("fetch", '{"text": "soup"}')], "Here you are.", bye]
    if "tools" not in features:
        return [EMOJI_AND_MARKDOWN, "Fine.", *(order if "late" in features else [bye])]
    calls = [_call("book", '{"people": 2}'), _call("look_up", '{"name": 3}'), _call("fail"), _call("none_such")]
    return [
        EMOJI_AND_MARKDOWN,
        "Fine.",
        calls,
        [_call("look_up", '{"name": "Ann"}')],
        "Done.",
        [_call("hand_over")],
        "I am the waiter.",
        *order,
    ]


def _servers(are_wanted: bool) -> list[Any]:
    if not are_wanted:
        return []
    from kit.mcp.memory import MemoryServer, library

    return [MemoryServer(app=library("fetch"))]


def main(pipeline: str, *features: str) -> None:
    """Run the call."""
    waiter = Waiter(_servers("mcp" in features))
    agent = Host(waiter) if "tools" in features else Agent("Help.")
    options = SessionOptions()
    if "telemetry" in features:
        from kit.telemetry import Watching

        options = SessionOptions(telemetry=Watching().telemetry)
    if pipeline == "realtime":
        SessionHarness.pipeline_of = staticmethod(realtime_of)
    harness = SessionHarness(agent, ScriptedLLM(*_script(features)), options=options)
    if "tools" in features:
        harness.expects_error("tool")
    imports = Imports()

    async def scenario(_: SessionHarness) -> None:
        loaded = set(sys.modules)
        sys.meta_path.insert(0, imports)
        try:
            await _turns(harness, waiter, features)
        finally:
            sys.meta_path.remove(imports)
        outcomes = [turn.outcome for turn in harness.session.turns]
        tools = [tool.tool for tool in harness.tools]
        told = {"imported": imports.noted, "loaded_before": sorted(loaded), "outcomes": outcomes, "tools": tools}
        print(json.dumps(told))

    harness.run(scenario)
