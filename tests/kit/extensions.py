"""A small extension: what it does with turns and with results of tools is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from vivavoce.agents.extension.extension import Attached, Extension, Host, Judges
from vivavoce.agents.extension.text_parts import TextParts
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.pipelines.llm.tools import ToolCall

OnTurn = Callable[[Host, TurnInHand], Awaitable[None]]


async def nothing(host: Host, turn: TurnInHand) -> None:
    """Look at the turn and do nothing."""


def answering(text: str) -> OnTurn:
    """Return an `on_turn` that answers with that text."""

    async def answer(host: Host, turn: TurnInHand) -> None:
        parts = TextParts()
        parts.push(text)
        parts.close()
        turn.answer(parts)

    return answer


async def drop(host: Host, turn: TurnInHand) -> None:
    """Drop the turn."""
    turn.drop()


@dataclass(frozen=True, eq=False)
class Look(Extension):
    """Looks at each turn.

    Args:
        judges: What it must know before an answer begins.
        answers_tools: Whether it answers the results of tools.
        limit: Its `turn_limit`.
    """

    key: ClassVar[str] = "look"

    on_turn: OnTurn = nothing
    judges: Judges = "turn"
    answers_tools: bool = False
    limit: float | None = None

    def attach(self, host: Host) -> Attached:
        """Make the part of one session."""
        return Looking(host, self)


@dataclass(frozen=True, eq=False)
class Second(Look):
    """Another one."""

    key: ClassVar[str] = "second"


class Looking(Attached):
    """The part of one session, which notes what it gets."""

    def __init__(self, host: Host, given: Look) -> None:
        self.host = host
        self.face = self
        self.turn_limit = given.limit
        self.turns: list[tuple[float, str, bool]] = []
        """When, with which words, and whether ahead `on_turn` was called."""
        self.undone: list[str] = []
        """The words of the turns that were taken back."""
        self.results: list[str] = []
        self._given = given

    @property
    def judges(self) -> Judges:
        """What it must know before an answer begins."""
        return self._given.judges

    async def on_turn(self, turn: TurnInHand) -> None:
        """Note the turn and do what is given."""
        self.turns.append((round(self.host.context.clock.now(), 6), turn.text, turn.is_ahead))
        await self._given.on_turn(self.host, turn)

    def undo(self, turn: TurnInHand) -> None:
        """Note that it is taken back."""
        self.undone.append(turn.text)

    async def on_tool_result(self, call: ToolCall, output: str) -> bool:
        """Note the result."""
        self.results.append(output)
        return self._given.answers_tools
