"""Texts of peers: `TextTurns` makes turns of the user of them; `PeerText` is the data of their graph events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.peers.peer import Peer
from vivavoce.agents.peers.wire import Outcome

if TYPE_CHECKING:
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.extension.turn_in_hand import TurnInHand
    from vivavoce.agents.records import TurnRecord

MAX_ANSWERS = 100
"""The turns whose ids are kept."""


@dataclass(frozen=True, slots=True)
class PeerText:
    """The data of the graph's event `peer_message`: a text, and the agent that has sent it."""

    peer: Peer
    text: str = field(repr=False)


@dataclass(slots=True, eq=False)
class _Asked:
    """A request that waits for the answer of its turn, since `asked_at` seconds from the session's start."""

    text: str
    asked_at: float
    answer: asyncio.Future[Outcome]
    turn: TurnInHand | None = None


class TextTurns:
    """The turns of the user that peers have made. One request at a time waits for its answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._one = anyio.Lock()
        self._asked: _Asked | None = None
        self._answers: dict[str, None] = {}

    async def take(self, text: str, *, wants_answer: bool) -> Outcome:
        """Take a text as a turn of the user; return the heard words of the answer to a request."""
        if not wants_answer:
            self._host.take_text(text)
            return Outcome()
        context = self._host.context
        async with self._one:
            asked_at = context.clock.now() - context.log.started_at
            self._asked = _Asked(text, asked_at, asyncio.get_running_loop().create_future())
            try:
                self._host.take_text(text)
                return await self._asked.answer
            finally:
                self._asked = None

    def is_answer(self, turn_id: str) -> bool:
        """Return whether the turn has answered a request."""
        return turn_id in self._answers

    def on_turn(self, turn: TurnInHand) -> None:
        """Note the turn of the request that waits."""
        asked = self._asked
        if asked is None or asked.turn is not None or turn.is_ahead or asked.text.strip() not in turn.said:
            return
        asked.turn = turn
        self._answers[turn.turn_id] = None
        if len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]

        def answered(handle: SpeechHandle) -> None:
            if asked.turn is turn and not asked.answer.done():
                has_failed = handle.outcome == "failed"
                failed = Outcome(status="failed", detail="its answer failed")
                asked.answer.set_result(failed if has_failed else Outcome(content=handle.heard_text))

        turn.handle.add_done_callback(answered)

    def turn_over(self, record: TurnRecord) -> None:
        """End the request whose turn the agent or its guard has not let to an answer: no `on_turn` came for it."""
        asked = self._asked
        if asked is None or asked.turn is not None or asked.answer.done():
            return
        if record.ended_by == "text" and record.started_at >= asked.asked_at:
            asked.answer.set_result(Outcome(status="failed", detail="it does not answer this"))

    def undo(self, turn: TurnInHand) -> None:
        """Wait for another turn with the text: this one goes on."""
        if self._asked is not None and self._asked.turn is turn:
            self._asked.turn = None
