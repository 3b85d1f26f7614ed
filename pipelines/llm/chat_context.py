"""ChatContext: the conversation as items with stable ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from vivavoce.pipelines.llm.chat_items import (
    AgentHandoff,
    ChatItem,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
    ItemType,
    Role,
)

__all__ = [
    "AgentHandoff",
    "ChatContext",
    "ChatItem",
    "ChatMessage",
    "ConfigChange",
    "FunctionCall",
    "FunctionCallOutput",
    "ItemType",
    "Role",
]


class ChatContext:
    """An ordered list of items. Items are frozen: a change replaces one, by id."""

    def __init__(self, items: Sequence[ChatItem] = ()) -> None:
        self._items: list[ChatItem] = list(items)

    @property
    def items(self) -> tuple[ChatItem, ...]:
        """All items, oldest first."""
        return tuple(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[ChatItem]:
        return iter(tuple(self._items))

    def __repr__(self) -> str:
        return f"ChatContext({len(self._items)} items)"

    def messages(self, role: Role | None = None) -> list[ChatMessage]:
        """Return the messages, of one role if given."""
        return [i for i in self._items if isinstance(i, ChatMessage) and role in (None, i.role)]

    def append(self, item: ChatItem) -> None:
        """Add `item` at the end."""
        self._items.append(item)

    def replace(self, item: ChatItem) -> None:
        """Put `item` in the place of the one with its id.

        Raises:
            KeyError: There is none.
        """
        for index, old in enumerate(self._items):
            if old.id == item.id:
                self._items[index] = item
                return
        raise KeyError(f"no item with the id {item.id!r}")

    def remove(self, item_id: str) -> None:
        """Take out the item with that id, if it is there."""
        self._items = [item for item in self._items if item.id != item_id]

    def copy(self) -> ChatContext:
        """Return a list of its own over the same frozen items."""
        return ChatContext(self._items)

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain data, pictures left out."""
        return [_plain(item) for item in self._items]


def _plain(item: ChatItem) -> dict[str, Any]:
    if isinstance(item, ChatMessage):
        data = asdict(replace(item, images=()))
        del data["images"]
        return data
    return asdict(item)
