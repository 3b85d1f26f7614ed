"""StoreHistorySink: keeps the histories of sessions in a session store, where other processes read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from vivavoce.agents.core.values import MAX_BYTES, check_size, size_of
from vivavoce.agents.history.sink import HistoryChange, HistorySink, in_order
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.stores.store import Place, SessionStore
from vivavoce.pipelines.core.checks import check_flag, check_instance
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.llm.chat_json import item_from_json, item_to_json

NAMESPACE = "history"
"""Its entries are the items, by id."""


class StoreHistorySink(HistorySink):
    """Keeps each item as an entry of its session. A session with `MemoryOptions(store=…)` has one by itself.

    Its store belongs to its maker: the sink does not close it.

    Args:
        images: Whether pictures are kept, as base64; an item that is too long with them is kept without.
    """

    def __init__(self, store: SessionStore, *, images: bool = False) -> None:
        check_instance("store", store, SessionStore)
        check_flag("images", images)
        self._store = store
        self._images = images

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep these changes.

        Raises:
            StoreValueError: An item is longer than 1 MiB.
        """
        place = Place(session_id, NAMESPACE)
        newest = {change.item.id: change for change in changes}  # of several changes of an item the last one counts
        for change in newest.values():
            if change.kind == "removed":
                await self._store.change(place, change.item.id, _nothing)
            else:
                await self._store.write(place, change.item.id, self._text(change.item))

    async def load(self, session_id: str) -> ChatContext:
        """Return the items of a session.

        Raises:
            ConfigurationError: An item is of another version or shape.
        """
        entries = await self._store.read_all(Place(session_id, NAMESPACE))
        return in_order(item_from_json(json.loads(text), place=f"item {name}") for name, text in entries.items())

    def _text(self, item: ChatItem) -> str:
        text = _encoded(item_to_json(item, images=self._images))
        if self._images and size_of(text) > MAX_BYTES:
            text = _encoded(item_to_json(item, images=False))
        check_size(text)
        return text


def _encoded(item: dict[str, Any]) -> str:
    text = json.dumps(item, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return json.dumps(item)
    return text


def _nothing(_: str | None) -> tuple[None, None]:
    """Remove an entry."""
    return None, None


class HeldHistorySink(StoreHistorySink):
    """Keeps a session's history in its store while the session has its memory for certain."""

    def __init__(self, base: MemoryBase) -> None:
        super().__init__(base.store)
        self._base = base

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep these changes.

        Raises:
            StoreUnavailable: Another session may have the memory.
        """
        self._base.check_held()
        await super().write(session_id, changes)
