"""MemoryHistory: the history of all calls of a session, in its own process or from its store, and reasoning events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.history.chat import heard_messages
from vivavoce.agents.memory.history.reasoning import (
    ReasoningEvent,
    SavedKind,
    event_record,
    link_record,
    pending,
    saved_events,
    tool_events,
    with_replies,
)
from vivavoce.agents.memory.history.stored_items import HISTORY, in_order, items_of
from vivavoce.agents.memory.session_state import SessionState
from vivavoce.agents.telemetry.logs.logs import present_turn
from vivavoce.pipelines.core.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vivavoce.agents.core.values import Json
    from vivavoce.agents.history.history import HistoryControl
    from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage

LOG = "reasoning"
KEEP = 10_000
"""The newest records of the log, which are kept."""
PAGE = 1_000
"""Records of one call to the store."""


class MemoryHistory:
    """The history of one session: the items of its own call, and those of earlier calls with its id.

    Args:
        own: The history of the call, in its own process; None in another process, which reads all from the store.
    """

    def __init__(self, base: MemoryBase, own: HistoryControl | None) -> None:
        self._base = base
        self._own = own
        self._earlier: list[ChatItem] | None = None if own is None else []
        """The items of the store that may be of earlier calls; None until they are read."""
        self._state = SessionState(base)

    def read_earlier(self) -> None:
        """Read the items of earlier calls again at the next request, since the store may have other items now."""
        self._earlier = None

    async def messages(self) -> list[ChatMessage]:
        """Return the messages that the caller said or heard, oldest first."""
        return heard_messages(await self._items())

    async def save(self, kind: SavedKind, payload: Json) -> None:
        """Keep a reasoning event. It belongs to the turn of the calling code."""
        turn_id = "" if self._own is None else present_turn()
        event = ReasoningEvent(
            id=new_id("reasoning"), kind=kind, payload=payload, at=self._base.clock.wall(), turn_id=turn_id
        )
        await self._log(event_record(event))

    async def events(self) -> list[ReasoningEvent]:
        """Return all reasoning events, tool calls and results, oldest first, each with its reply's id."""
        items = await self._items()
        replies = [message for message in heard_messages(items) if message.role == "assistant"]
        return with_replies([*await self._saved(), *tool_events(items)], replies)

    async def link_pending(self) -> int:
        """Link the events outside any turn to the newest reply of the newest call; return their number."""
        began_at = await self._state.began_at()
        replies = [m for m in await self.messages() if m.role == "assistant" and m.created_at >= began_at]
        saved = await self._saved() if replies else []
        ids = pending(event for event in saved if event.at >= began_at)
        if ids:
            await self._log(link_record(ids, replies[-1].id))
        return len(ids)

    async def _items(self) -> Sequence[ChatItem]:
        own, earlier = self._own, self._earlier
        if earlier is None:
            earlier = items_of(await self._base.within(self._base.store.read_all(self._base.place(HISTORY))))
        if own is None:
            return earlier
        self._earlier, known = earlier, own.known_ids
        return in_order([*(item for item in earlier if item.id not in known), *own.items]) if earlier else own.items

    async def _saved(self) -> list[ReasoningEvent]:
        base, texts = self._base, list[str]()
        start = 0
        while True:
            found = await base.within(base.store.records(base.place(LOG), start, PAGE))
            texts += [record.text for record in found]
            if len(found) < PAGE:
                return saved_events(texts)
            start = found[-1].index + 1

    async def _log(self, text: str) -> None:
        base = self._base
        await base.within(base.store.log(base.place(LOG), [text], keep=KEEP))
