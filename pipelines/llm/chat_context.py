"""ChatContext: the conversation as items with stable ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.media.frame import VideoFrame

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """Words of one speaker.

    Args:
        content: For an assistant, what was heard, not what was generated.
        interrupted: The message was cut short; providers tell the model so in the request.
        backchannel: The user's "mhm", kept and answered by nobody.
        speaker: Who said it, where a room has several; empty otherwise.
        turn_id: The turn that it belongs to.
        sequence: Grows by one with each item of a session's history.
        created_at: Session clock, seconds.
    """

    role: Role
    content: str = field(repr=False)
    id: str = field(default_factory=lambda: new_id("item"))
    interrupted: bool = False
    backchannel: bool = False
    images: tuple[VideoFrame, ...] = field(default=(), repr=False)
    speaker: str = ""
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A tool call made by the model; `arguments` is JSON text."""

    call_id: str
    name: str
    arguments: str = field(repr=False)
    id: str = field(default_factory=lambda: new_id("item"))
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["function_call"] = "function_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCallOutput:
    """What the call with the same `call_id` came to; there is exactly one for each call in a history."""

    call_id: str
    name: str
    output: str = field(repr=False)
    is_error: bool = False
    id: str = field(default_factory=lambda: new_id("item"))
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["function_call_output"] = "function_call_output"


ChatItem = ChatMessage | FunctionCall | FunctionCallOutput


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
