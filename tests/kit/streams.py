"""Agents that note the items of streams."""

from __future__ import annotations

from typing import Any

from vivavoce.agents import Agent
from vivavoce.agents.memory import Stream, StreamItem


class Reader(Agent):
    """Notes each item that it gets; raises, hangs or speaks for the items that say so."""

    def __init__(self, id: str = "desk") -> None:
        super().__init__("Be brief.", id=id)
        self.items: list[tuple[str, Any]] = []

    async def on_stream(self, stream: Stream, item: StreamItem) -> None:
        self.items.append((stream.name, item.code or item.value))
        if item.value == "raise":
            raise ValueError("scripted")
        if item.value == "speak":
            await self.session.say("I have read it.")
            self.items.append((stream.name, "spoken"))
