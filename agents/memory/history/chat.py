"""The heard text of a session: the messages of both sides, as an application reads them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage


def heard_messages(items: Iterable[ChatItem]) -> list[ChatMessage]:
    """Return the messages that the caller said or heard, oldest first."""
    return [
        item
        for item in items
        if isinstance(item, ChatMessage) and item.role in ("user", "assistant") and not item.no_transcript
    ]


def newest(messages: list[ChatMessage], n: int | None, until: float | None) -> list[ChatMessage]:
    """Return the newest `n` messages up to and including a time; None for no limit."""
    found = [message for message in messages if until is None or message.created_at <= until]
    return found if n is None else found[len(found) - min(n, len(found)) :]


def checked_time(until_timestamp: float | datetime | None) -> float | None:
    """Return a time as seconds since the Unix epoch.

    Raises:
        ConfigurationError: It is not a time, or is a datetime without a time zone.
    """
    if isinstance(until_timestamp, datetime):
        if until_timestamp.tzinfo is None:
            raise ConfigurationError(
                f"until_timestamp needs a time zone, got {until_timestamp!r}; use datetime.now(UTC)"
            )
        return until_timestamp.timestamp()
    check_number("until_timestamp", until_timestamp, unit="s since 1970", or_none=True)
    return until_timestamp
