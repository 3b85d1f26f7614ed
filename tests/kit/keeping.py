"""Keeping: a watch over sessions with a scripted store, in the place of a worker that keeps its calls."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from vivavoce.agents.session_watch import Conversation


class Keeping:
    """A watch whose store fails, or is slow, as the test sets it."""

    publishes_turns = False
    has_conversation = False

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.tries = 0
        self.error: Exception | None = None
        self.delay = 0.0

    def session_begins(self, session: Any) -> None:
        return None

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        return None

    def keeper(self, room: str) -> Callable[[str], Awaitable[None]]:
        return self._keep

    async def _keep(self, conversation: str) -> None:
        self.tries += 1
        await anyio.sleep(self.delay)
        if self.error is not None:
            raise self.error
        self.kept.append(json.loads(conversation))

    @property
    def said(self) -> list[list[str]]:
        """The texts of each kept conversation."""
        return [[item["content"] for item in one["history"]["items"]] for one in self.kept]
