"""Conversation: the items of one session, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.testing.realtime_server.refusal import Refusal, needed

ROLES = {
    "user": frozenset({"input_text", "input_audio", "input_image"}),
    "assistant": frozenset({"output_text", "output_audio"}),
    "system": frozenset({"input_text"}),
}
"""The kinds of content of each role's messages."""

TEXTS = {"input_text": "text", "output_text": "text", "output_audio": "transcript", "input_audio": "transcript"}


class Conversation:
    """Items by id, oldest first."""

    def __init__(self) -> None:
        self.id = new_id("conv")
        self._items: list[dict[str, Any]] = []
        self._audio_ms: dict[str, int] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items)

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Role and words of the messages so far, for a test to read."""
        return [(item["role"], text_of(item)) for item in self._items if item["type"] == "message"]

    @property
    def last_id(self) -> str | None:
        """The newest item's id."""
        return self._items[-1]["id"] if self._items else None

    def take(self, given: dict[str, Any], previous: str | None) -> tuple[dict[str, Any], str | None]:
        """Insert a client's item; return the stored item, and the id of the one before it.

        Args:
            previous: The place: after this item, `"root"` for the beginning, None for the end.
        Raises:
            Refusal: The item is invalid, its id is taken, or there is no such place.
        """
        item = {"id": new_id("item"), "object": "realtime.item", "status": "completed"} | _checked(given)
        if item["id"] is None:
            item["id"] = new_id("item")
        if self._place(item["id"]) is not None:
            raise Refusal(
                f"Error adding item: an item with id '{item['id']}' already exists.",
                code="item_create_duplicate_item_id",
                param="item.id",
            )
        if item["type"] == "function_call_output" and not any(
            one["type"] == "function_call" and one.get("call_id") == item["call_id"] for one in self._items
        ):
            raise Refusal(
                f"Tool call ID '{item['call_id']}' not found in conversation.",
                code="invalid_tool_call_id",
                param="item.call_id",
            )
        place = len(self._items)
        if previous == "root":
            place = 0
        elif previous is not None:
            before = self._place(previous)
            if before is None:
                raise Refusal(
                    f"Error adding item: the previous item with id '{previous}' does not exist.",
                    code="item_create_invalid_previous_item_id",
                    param="previous_item_id",
                )
            place = before + 1
        self._items.insert(place, item)
        return item, self._items[place - 1]["id"] if place else None

    def add(self, item: dict[str, Any]) -> str | None:
        """Append an item of the server's own; return the id of the one before it."""
        last = self.last_id
        self._items.append(item)
        return last

    def find(self, item_id: str) -> dict[str, Any]:
        """Return an item.

        Raises:
            Refusal: No item has that id.
        """
        place = self._place(item_id)
        if place is None:
            raise Refusal(f"Item with item_id '{item_id}' not found.", code="item_not_found", param="item_id")
        return self._items[place]

    def delete(self, item_id: str) -> None:
        """Remove an item.

        Raises:
            Refusal: No item has that id.
        """
        if self._place(item_id) is None:
            raise Refusal(
                f"Error deleting item: the item with id '{item_id}' does not exist.",
                code="item_delete_invalid_item_id",
                param="item_id",
            )
        self._items.remove(self.find(item_id))

    def heard(self, item_id: str, milliseconds: int) -> None:
        """Store how much audio an answer has."""
        self._audio_ms[item_id] = milliseconds

    def truncate(self, item_id: str, end_ms: int) -> None:
        """Cut an answer's audio, and with it its transcript.

        Raises:
            Refusal: It has no audio, or less than that.
        """
        item = self.find(item_id)
        if item_id not in self._audio_ms:
            raise Refusal("Only model output audio messages can be truncated", code="invalid_value", param="item_id")
        length = self._audio_ms[item_id]
        if end_ms > length:
            raise Refusal(
                f"Audio content of {length}ms is already shorter than {end_ms}ms",
                code="invalid_value",
                param="audio_end_ms",
            )
        self._audio_ms[item_id] = end_ms
        item["content"] = [{"type": "output_audio", "transcript": None}]

    def _place(self, item_id: str) -> int | None:
        return next((place for place, item in enumerate(self._items) if item["id"] == item_id), None)


def text_of(item: dict[str, Any]) -> str:
    """Return a message's words."""
    return "".join(part.get(TEXTS.get(part["type"], ""), "") or "" for part in item["content"])


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    kind = needed(given, "type", str, "item")
    if kind == "function_call":
        for name in ("name", "arguments"):
            needed(given, name, str, "item")
    elif kind == "function_call_output":
        for name in ("call_id", "output"):
            needed(given, name, str, "item")
    elif kind == "message":
        role = needed(given, "role", str, "item")
        if role not in ROLES:
            raise Refusal(f"Invalid value: '{role}'.", code="invalid_value", param="item.role")
        for number, part in enumerate(needed(given, "content", list, "item")):
            path = f"item.content[{number}]"
            if needed(part, "type", str, path) not in ROLES[role]:
                supported = ", ".join(f"'{name}'" for name in sorted(ROLES[role]))
                raise Refusal(
                    f"Invalid value: '{part['type']}'. Supported values for the role {role} are: {supported}.",
                    code="invalid_value",
                    param=f"{path}.type",
                )
    else:
        raise Refusal(f"Invalid value: '{kind}'.", code="invalid_value", param="item.type")
    return dict(given)
