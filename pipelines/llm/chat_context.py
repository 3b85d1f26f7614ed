"""ChatContext: the conversation as items with stable ids, and operations on it.

`append`, `insert`, `replace` and `remove` change it; everything else returns another context over the same frozen
items. Operations that leave items out keep a call and its output together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import anyio

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderTimeoutError
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
from vivavoce.pipelines.llm.chat_json import items_from_json, items_to_json
from vivavoce.pipelines.llm.chat_units import TokenCounter, estimate_tokens, newest, units, without_halves

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
    "Summariser",
    "TokenCounter",
    "estimate_tokens",
]

SUMMARY = "What was said before, in short: {}"


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

    def __eq__(self, other: object) -> bool:
        return self._items == other._items if isinstance(other, ChatContext) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"ChatContext({len(self._items)} items)"

    def messages(self, role: Role | None = None) -> list[ChatMessage]:
        """Return the messages, of one role if given."""
        return [i for i in self._items if isinstance(i, ChatMessage) and role in (None, i.role)]

    # --- changing it

    def append(self, item: ChatItem) -> None:
        """Add `item` at the end."""
        self._items.append(item)

    def insert(self, item: ChatItem, *, before: str) -> None:
        """Put `item` before the item with the id `before`.

        Raises:
            KeyError: There is no such item.
        """
        self._items.insert(self._place(before), item)

    def replace(self, item: ChatItem) -> None:
        """Put `item` in the place of the item with its id.

        Raises:
            KeyError: There is no such item.
        """
        self._items[self._place(item.id)] = item

    def remove(self, item_id: str) -> None:
        """Remove the item with that id, if it is there."""
        self._items = [item for item in self._items if item.id != item_id]

    # --- other contexts

    def copy(self) -> ChatContext:
        """Return a copy with a list of its own over the same frozen items."""
        return ChatContext(self._items)

    def filter(
        self,
        keep: Callable[[ChatItem], bool] | None = None,
        *,
        types: Collection[ItemType] | None = None,
        roles: Collection[Role] | None = None,
    ) -> ChatContext:
        """Return the items that pass every test given; a call goes with its output, and an output with its call.

        Args:
            types: Of items; `{"message"}` leaves the tools out.
            roles: Of messages; `{"user", "assistant"}` leaves the system out. Other items pass.
        """
        kept = [
            item
            for item in self._items
            if (types is None or item.type in types)
            and (roles is None or not isinstance(item, ChatMessage) or item.role in roles)
            and (keep is None or keep(item))
        ]
        return ChatContext(without_halves(self._items, kept))

    def truncate(
        self,
        *,
        max_items: int | None = None,
        max_tokens: int | None = None,
        count_tokens: TokenCounter = estimate_tokens,
        keep_system: bool = True,
    ) -> ChatContext:
        """Return the newest items that fit.

        If `max_tokens` does not hold all items, tool results over a quarter of it keep their beginning and end only;
        those of more than three parallel calls share it.
        The newest item is kept in any case, with all of its step if it belongs to a tool; and so is the newest message
        of the user, unless the agent's answer to it came last.

        Args:
            count_tokens: Returns the tokens of an item; by default a rough estimate.
            keep_system: Whether the system's messages stay, however old; they count.
        Raises:
            ConfigurationError: A limit is below 1.
        """
        for name, limit in (("max_items", max_items), ("max_tokens", max_tokens)):
            if limit is not None and limit < 1:
                raise ConfigurationError(f"need {name} >= 1, got {limit!r}")
        return ChatContext(
            newest(
                self._items,
                max_items=max_items,
                max_tokens=max_tokens,
                count_tokens=count_tokens,
                keep_system=keep_system,
            )
        )

    async def summarise(self, by: Summariser, *, keep_items: int = 10, limit: float = 30.0) -> ChatContext:
        """Return the newest `keep_items` items, with one summary in the place of the older ones.

        The summary is a message of the system, with the place and date of the last of the old items. Older summaries
        go into it; other messages of the system stay. This context does not change.

        Args:
            by: Receives the old items and returns a summary; see `LLMSummariser`.
            keep_items: The least number of items that stay; more stay if a call would lose its output.
            limit: Seconds for `by`.
        Raises:
            ProviderTimeoutError: No summary came in time.
            ProviderError: The summary has no words.
            ConfigurationError: `keep_items` or `limit` is out of range.
        """
        if keep_items < 0 or limit <= 0:
            raise ConfigurationError(f"need keep_items >= 0, limit > 0 (s), got {keep_items!r}, {limit!r}")
        old = self._old_items(keep_items)
        if not any(isinstance(item, ChatMessage) and not item.is_summary for item in old):
            return self.copy()
        try:
            with anyio.fail_after(limit):
                text = await by(ChatContext(old))
        except TimeoutError as error:
            raise ProviderTimeoutError(f"no summary came within {limit:g} s", provider="summary") from error
        if not text.strip():
            raise ProviderError(f"needed a summary of {len(old)} items, got no words", provider="summary")
        last, gone = old[-1], {item.id for item in old}
        summary = ChatMessage(
            role="system",
            content=SUMMARY.format(text.strip()),
            is_summary=True,
            sequence=last.sequence,
            created_at=last.created_at,
        )
        return ChatContext(
            [summary if item is last else item for item in self._items if item is last or item.id not in gone]
        )

    # --- as JSON

    def to_json(self, *, images: bool = False) -> dict[str, Any]:
        """Return plain data, version 1.

        Args:
            images: Whether pictures are in it, as base64.
        """
        return items_to_json(self._items, images=images)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChatContext:
        """Return the context from the data of `to_json`.

        Raises:
            ConfigurationError: The data is of another version or shape; the error names the place, and quotes no
                content.
        """
        return cls(items_from_json(data))

    def _old_items(self, keep_items: int) -> list[ChatItem]:
        kept: list[ChatItem] = []
        rest = units(self._items)
        while rest and len(kept) < keep_items:
            kept += rest.pop()
        old = [item for unit in rest for item in unit]
        return [i for i in old if not (isinstance(i, ChatMessage) and i.role == "system" and not i.is_summary)]

    def _place(self, item_id: str) -> int:
        for place, item in enumerate(self._items):
            if item.id == item_id:
                return place
        raise KeyError(f"no item with the id {item_id!r}")


Summariser = Callable[[ChatContext], Awaitable[str]]
"""Returns a summary of a conversation in a few sentences."""
