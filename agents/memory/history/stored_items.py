"""The items of a history, and the snapshot of a session, as the texts that a store keeps. Pure; no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vivavoce.agents.core.values import MAX_BYTES, check_size, size_of
from vivavoce.pipelines.core.errors import StoreError
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.llm.chat_json import HISTORY_VERSION, item_from_json, item_to_json

HISTORY = "history"
"""The namespace of a session's items, by their ids; it has the items of all calls under the session's id."""
SNAPSHOT = "snapshot"
"""The namespace of a session's newest snapshot, which has one entry, `HEAD`."""
HEAD = "head"
"""The snapshot with the ids of its items in place of its history, or `{"error": …}` if none can be made."""


def item_text(item: ChatItem, *, images: bool) -> str:
    """Return the text of an item.

    Args:
        images: Whether pictures are in it, as base64. An item that is too long with its pictures is kept without them.
    Raises:
        StoreValueError: It is longer than 1 MiB.
    """
    text = json.dumps(item_to_json(item, images=images), ensure_ascii=False)
    if images and size_of(text) > MAX_BYTES:
        text = json.dumps(item_to_json(item, images=False), ensure_ascii=False)
    check_size(text)
    return text


def items_of(entries: Mapping[str, str]) -> list[ChatItem]:
    """Return the items of the namespace `HISTORY`, in the order of time.

    Raises:
        ConfigurationError: An item is of another version or shape.
    """
    return in_order(item_from_json(json.loads(text), place=f"item {name}") for name, text in entries.items())


def in_order(items: Iterable[ChatItem]) -> list[ChatItem]:
    """Return items of one or more calls in the order of time; sequence numbers count within one call only."""
    return sorted(items, key=lambda item: (item.created_at, item.sequence))


def whole_snapshot(head: str, entries: Mapping[str, str]) -> dict[str, Any]:
    """Return a snapshot with its history. Items that the store lacks are left out, and so is an unanswered turn whose
    words are among them.

    Args:
        head: The text of `HEAD`.
        entries: The texts of the namespace `HISTORY`.
    Raises:
        StoreError: The session could not make a snapshot.
    """
    data: dict[str, Any] = json.loads(head)
    if "error" in data:
        raise StoreError(f"the session has no snapshot: {data['error']}")
    items = [json.loads(entries[item_id]) for item_id in data["history"] if item_id in entries]
    work = data["open"]
    if work and not any(item.get("role") == "user" and item.get("turn_id") == work["turn_id"] for item in items):
        work = {**work, "turn_id": ""}
    return {**data, "history": {"version": HISTORY_VERSION, "items": items}, "open": work}
