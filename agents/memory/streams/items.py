"""The text of a stream's item in the store, and the checks of its names."""

from __future__ import annotations

import json
from collections.abc import Mapping

from vivavoce.agents.core.values import Json, encode, plain
from vivavoce.agents.memory.stores.store import Record
from vivavoce.agents.streams import StreamItem
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError

ADD_STREAM, ADD_AGENT, REMOVE_AGENT = "ADD_STREAM", "ADD_AGENT", "REMOVE_AGENT"
"""The codes of announcements."""

MAX_NAME = 256
"""The most characters of a name, a tag or a code."""


def value_text(value: Json, at: float) -> str:
    """Return the text of a value.

    Raises:
        StoreValueError: It is not JSON, or is longer than 1 MiB.
    """
    return f"[{at!r},{plain(encode(value))}]"


def control_text(code: str, args: Mapping[str, Json], at: float) -> str:
    """Return the text of a control message.

    Raises:
        StoreValueError: An argument is not JSON, or all are longer than 1 MiB.
    """
    return f"[{at!r},{json.dumps(code)},{encode(dict(args))}]"


def item_of(record: Record) -> StreamItem:
    """Return the item of a record."""
    at, what, *args = json.loads(record.text)
    if args:
        return StreamItem(index=record.index, at=at, code=what, args=args[0])
    return StreamItem(index=record.index, at=at, value=what)


def checked_name(kind: str, name: object) -> str:
    """Check the name of a stream, a tag or a code.

    Raises:
        ConfigurationError: It is not a str, is empty, too long, or not printable.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ConfigurationError(f"need {kind} as a str of 1 to {MAX_NAME} printable characters, got {shown(name)}")
    return str.__str__(name)
