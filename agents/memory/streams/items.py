"""StreamItem: one item of a stream, and its text in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.agents.core.values import Json, encode, plain
from vivavoce.agents.memory.stores.store import Record
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError

END = "EOS"
"""Ends a stream."""
ADD_STREAM, ADD_AGENT, REMOVE_AGENT = "ADD_STREAM", "ADD_AGENT", "REMOVE_AGENT"
"""Announcements."""

MAX_NAME = 256
"""Characters of a name, a tag or a code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamItem:
    """One item of a stream: a value, or a control message.

    Args:
        index: Counts the stream's items from 0. A gap shows items that were dropped before they were read.
        at: When it was written, by the clock of its writer: seconds since the Unix epoch.
        value: The value; None for a control message.
        code: The code of a control message; empty for a value. `EOS` is the stream's end.
        args: The arguments of a control message.
    """

    index: int
    at: float
    value: Json = field(default=None, repr=False)
    code: str = ""
    args: Mapping[str, Json] = field(default_factory=dict, repr=False)

    @property
    def is_control(self) -> bool:
        """Whether it is a control message, and has no value."""
        return bool(self.code)

    @property
    def is_end(self) -> bool:
        """Whether the stream ends here."""
        return self.code == END


def value_text(value: Json, at: float) -> str:
    """Return the text of a value.

    Raises:
        StoreValueError: It is no JSON, or longer than 1 MiB.
    """
    return f"[{at!r},{plain(encode(value))}]"


def control_text(code: str, args: Mapping[str, Json], at: float) -> str:
    """Return the text of a control message.

    Raises:
        StoreValueError: An argument is no JSON, or they are longer than 1 MiB.
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
        ConfigurationError: It is no str, empty, too long, or not printable.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ConfigurationError(f"need {kind} as a str of 1 to {MAX_NAME} printable characters, got {shown(name)}")
    return str.__str__(name)
