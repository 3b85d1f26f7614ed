"""HistoryWriter: writes a session's history to its store, in a task of its own, so that no turn waits for a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.write_queue import WriteQueue
from vivavoce.agents.history.history import ChangeKind
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.history.stored_items import HISTORY, item_text
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.agents.memory.stores.limit import within
from vivavoce.agents.memory.stores.store import removing
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.chat_context import ChatItem

NAME = "history"
"""The name of this part in the store's health."""
BATCH = 100
"""Changes in one write."""
WRITE_LIMIT = 10.0
"""Seconds for one write."""
PAUSES = (1.0, 30.0)
"""Seconds from a failed write to the next try, doubled each time: the first and the longest."""


class HistoryWriter:
    """Takes the changes of a history without waiting and writes them in order, while the session has its memory.

    Args:
        images: Whether pictures are kept, as base64.
    """

    def __init__(self, context: SessionContext, base: MemoryBase, health: StoreHealth, *, images: bool) -> None:
        self._base = base
        self._images = images
        self._queue = WriteQueue[tuple[ChangeKind, ChatItem]](
            context,
            "the history in the session store",
            self._write,
            health,
            name=NAME,
            batch=BATCH,
            pauses=PAUSES,
        )

    @property
    def is_open(self) -> bool:
        """Whether it writes."""
        return self._queue.is_open

    @property
    def lost(self) -> int:
        """The number of lost changes; after the close, changes that waited in vain are included."""
        return self._queue.lost

    def open(self) -> None:
        """Begin to write, in a task of the session; changes noted before are written too."""
        self._queue.open()

    def begin_with(self, items: Iterable[ChatItem]) -> None:
        """Note the items of an earlier session, however many."""
        self._queue.begin_with(("added", item) for item in items)

    def put(self, kind: ChangeKind, item: ChatItem) -> None:
        """Note a change; one that comes after the close is lost."""
        self._queue.put((kind, item))

    async def aclose(self) -> None:
        """Write the waiting changes and end; the caller sets the limit.

        Raises:
            SessionError: Some changes were not written.
        """
        await self._queue.aclose()
        if self.lost:
            raise SessionError(f"{self.lost} changes of the history were not written")

    async def _write(self, changes: Sequence[tuple[ChangeKind, ChatItem]]) -> None:
        await within(WRITE_LIMIT, self._write_all(changes))

    async def _write_all(self, changes: Sequence[tuple[ChangeKind, ChatItem]]) -> None:
        self._base.check_held()
        store, place = self._base.store, self._base.place(HISTORY)
        newest = {item.id: (kind, item) for kind, item in changes}  # of several changes of an item the last one counts
        kept = [item for kind, item in newest.values() if kind != "removed"]
        if kept:
            await store.write_many(place, {item.id: item_text(item, images=self._images) for item in kept})
        for kind, item in newest.values():
            if kind == "removed":
                await store.change(place, item.id, removing)
