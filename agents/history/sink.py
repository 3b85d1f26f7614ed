"""HistorySink: the port that keeps conversations outside of the session, and MemoryHistorySink, which uses memory.

A sink is a component: sessions may share one, and its maker closes it. It receives each change of a history soon after
the change, never on the conversation's path (`history.feed` calls it). `load` returns a stored conversation, for a
`ChatContext` of its own or as the past of another session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem

ChangeKind = Literal["added", "replaced", "removed"]


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A change of one item: `item` as it is now, or as it was before its removal."""

    kind: ChangeKind
    item: ChatItem


class HistorySink(ABC):
    """Keeps the histories of sessions."""

    @abstractmethod
    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep these changes, in order. After an error it is called again with the same changes and later ones.

        A change may therefore come twice: adding an item that exists replaces it, removing a missing item does nothing.
        """

    @abstractmethod
    async def load(self, session_id: str) -> ChatContext:
        """Return the items of a session in order of their sequence numbers; none for an unknown session."""

    async def aclose(self) -> None:
        """Release the sink's resources."""


class MemoryHistorySink(HistorySink):
    """Keeps histories in memory, for tests and for sessions of one process."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, ChatItem]] = {}

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep these changes."""
        apply_changes(self._items.setdefault(session_id, {}), changes)

    async def load(self, session_id: str) -> ChatContext:
        """Return the items of a session."""
        return in_order(self._items.get(session_id, {}).values())


def apply_changes(items: dict[str, ChatItem], changes: Iterable[HistoryChange]) -> None:
    """Apply the changes to `items`, which are kept by their ids."""
    for change in changes:
        if change.kind == "removed":
            items.pop(change.item.id, None)
        else:
            items[change.item.id] = change.item


def in_order(items: Iterable[ChatItem]) -> ChatContext:
    """Return the items as a conversation."""
    return ChatContext(sorted(items, key=lambda item: item.sequence))
