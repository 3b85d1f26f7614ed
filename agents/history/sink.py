"""HistorySink: the port by which conversations are kept outside of the process, and the one that keeps them in it.

A sink is a component: sessions may share one, and whoever made it closes it. It is told of each change of a history
soon after it happened, never on the conversation's path (`history_feed` sees to that), and what it holds can be read
back with `load`, for a `ChatContext` of its own or as the past of another session.
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
    """What became of an item; `item` is as it is now, or as it was when it was removed."""

    kind: ChangeKind
    item: ChatItem


class HistorySink(ABC):
    """Keeps the histories of sessions."""

    @abstractmethod
    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep these changes, in order. It may raise and is then called again with the same and later ones.

        So a change may come twice: adding an item that is there replaces it, removing one that is not is nothing.
        """

    @abstractmethod
    async def load(self, session_id: str) -> ChatContext:
        """Return the items of a session in order of their sequence numbers; none if it is not known."""

    async def aclose(self) -> None:
        """Free what the sink holds."""


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
    """Bring `items`, by their ids, up to date."""
    for change in changes:
        if change.kind == "removed":
            items.pop(change.item.id, None)
        else:
            items[change.item.id] = change.item


def in_order(items: Iterable[ChatItem]) -> ChatContext:
    """Return the items as a conversation."""
    return ChatContext(sorted(items, key=lambda item: item.sequence))
