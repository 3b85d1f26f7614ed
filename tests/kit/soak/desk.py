"""The agent of a soaked session: tools that answer, raise, hang and speak, hooks that take time and fail."""

from __future__ import annotations

import threading

import anyio

from kit.soak.providers import PROVOKED, Mood
from vivavoce.agents import Agent, CompletedTurn, function_tool

TOOL_TIMEOUT = 0.8


class Desk(Agent):
    """Answers calls; the behaviour of its hooks is drawn at its construction."""

    def __init__(self, mood: Mood, *, may_not_start: bool = False) -> None:
        super().__init__("Help.")
        self.mood = mood
        self._greets = mood.rng.choice(["", "said", "awaited"])
        self._entering_fails = may_not_start
        self._leaving = mood.rng.choices(["well", "speaks", "raises", "hangs"], [80, 10, 6, 4])[0]

    @function_tool
    def quick(self) -> str:
        """Answer from a thread."""
        return "quick"

    @function_tool
    async def slow(self) -> dict[str, str]:
        """Take a while."""
        await anyio.sleep(0.4)
        return {}

    @function_tool(cancel_on_interrupt=True)
    async def patient(self) -> None:
        """Take a while, unless the caller interrupts."""
        await anyio.sleep(0.6)

    @function_tool
    async def broken(self) -> str:
        """Raise."""
        self.mood.provoked["tool"] += 1
        raise RuntimeError(PROVOKED)

    @function_tool
    async def hangs(self) -> None:
        """Run into the timeout."""
        self.mood.provoked["tool hang"] += 1
        await anyio.sleep_forever()

    @function_tool
    def blocks(self) -> None:
        """Run into the timeout in a thread that continues."""
        self.mood.provoked["tool hang"] += 1
        threading.Event().wait(TOOL_TIMEOUT + 0.4)

    @function_tool
    async def speaks(self) -> str:
        """Say something meanwhile."""
        await self.session.say("One moment.")
        return "spoke"

    @function_tool
    async def transfers(self) -> Agent:
        """Hand the caller over."""
        return Desk(self.mood)

    @function_tool
    async def transfers_and_tells(self) -> tuple[Agent, str]:
        """Hand the caller over, with an output."""
        return Desk(self.mood), "transferred"

    async def on_enter(self) -> None:
        if self._entering_fails:
            raise RuntimeError(PROVOKED)
        if self._greets:
            handle = self.session.say("Hello, how may I help you?")
            if self._greets == "awaited":
                await handle

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        await anyio.sleep(0.0 if self.mood.is_calm else self.mood.rng.choice([0.0, 0.0, 0.1]))

    async def on_exit(self) -> None:
        match self._leaving:
            case "speaks":
                await self.session.say("Goodbye.")
            case "raises":
                self.mood.provoked["on_exit"] += 1
                raise RuntimeError(PROVOKED)
            case "hangs":
                self.mood.provoked["on_exit"] += 1
                await anyio.sleep_forever()
