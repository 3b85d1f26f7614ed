"""KeptParts: the newest parts of a session, each with its state, to be sent again; and their records for a store."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vivavoce.agents.replies.part import Form, Part
from vivavoce.agents.replies.wire import Plain, bytes_of, part_message, plain_of
from vivavoce.pipelines.io import PartMessage

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_PARTS = 100
MAX_KEPT_BYTES = 34 * 1024 * 1024
"""Bytes of all parts together: four of the largest files, and texts. The newest part stays in any case."""
BEGIN = '{"begins": true}'
"""The record of the beginning of a new call under the id of an earlier one."""
MAX_RECORDED_BYTES = 512 * 1024
"""Bytes of an image or a file that go into its record. A larger one is recorded by name, type and size only."""


@dataclass(slots=True, eq=False)
class KeptPart:
    """A part that was posted.

    Args:
        plain: Its message, with its state: the choice of options, whether a form is open.
        model: The model of a form that is open in this process.
    """

    id: str
    plain: Plain
    data: bytes = b""
    model: type[BaseModel] | None = None
    size: int = field(init=False)
    """Bytes of the part, approximately: text is counted by its characters."""

    def __post_init__(self) -> None:
        self.size = len(self.data) + len(self.message.json_text)

    @property
    def takes_choice(self) -> bool:
        """Whether the part has options, and none is chosen."""
        return self.plain["type"] == "options" and self.plain["chosen"] is None

    @property
    def message(self) -> PartMessage:
        """The message that shows the part in its present state."""
        return part_message(self.id, self.plain, self.data)


class KeptParts:
    """The newest parts, oldest first."""

    def __init__(self) -> None:
        self._parts: dict[str, KeptPart] = {}

    def __iter__(self) -> Iterator[KeptPart]:
        return iter(list(self._parts.values()))

    def get(self, part_id: str) -> KeptPart | None:
        """Return a part, or None if it is unknown or too old."""
        return self._parts.get(part_id)

    def add(self, part_id: str, part: Part) -> KeptPart:
        """Keep a part that is posted, and return it."""
        kept = kept_part(part_id, part)
        self._keep(kept)
        return kept

    def restore(self, records: Iterable[str]) -> None:
        """Keep the parts of an earlier process of the same session. Its forms are closed, since their models are
        lost."""
        for text in records:
            record: dict[str, Any] = json.loads(text)
            if (answered := self._parts.get(record.get("answered", ""))) is not None:
                _answer(answered, record.get("chosen"))
            elif "message" in record:
                self._keep(_kept(record))
            elif "begins" in record:
                self._parts.clear()
        for part in self:
            if part.plain.get("state") == "open":
                part.plain["state"] = "closed"
            if part.plain["type"] in ("image", "file") and not part.data:  # too large for its record
                del self._parts[part.id]

    def take(self, text: str) -> KeptPart | None:
        """Keep a part that another process has posted, by its record, and return it."""
        record: dict[str, Any] = json.loads(text)
        if not record.get("is_foreign") or record["part"] in self._parts:
            return None
        kept = _kept(record)
        self._keep(kept)
        return kept

    def _keep(self, kept: KeptPart) -> None:
        self._parts[kept.id] = kept
        while len(self._parts) > MAX_PARTS or (len(self._parts) > 1 and self._size > MAX_KEPT_BYTES):
            del self._parts[next(iter(self._parts))]

    @property
    def _size(self) -> int:
        return sum(part.size for part in self._parts.values())


def _kept(record: dict[str, Any]) -> KeptPart:
    return KeptPart(record["part"], record["message"], base64.b64decode(record.get("data", "")))


def _answer(part: KeptPart, chosen: int | None) -> None:
    if part.plain["type"] == "options":
        part.plain["chosen"] = chosen
    elif part.plain["type"] == "form":
        part.plain["state"], part.model = "submitted", None


def answer(part: KeptPart, chosen: int | None = None) -> str:
    """Note that a part was answered, and return the record of that. It holds no values of a form."""
    _answer(part, chosen)
    record = {"answered": part.id} if chosen is None else {"answered": part.id, "chosen": chosen}
    return json.dumps(record)


def kept_part(part_id: str, part: Part) -> KeptPart:
    """Return the state of a part at the moment when it is posted."""
    plain = plain_of(part)
    if plain["type"] == "options":
        plain["chosen"] = None
    elif plain["type"] == "form":
        plain["state"] = "open"
    return KeptPart(part_id, plain, bytes_of(part), part.model if isinstance(part, Form) else None)


def record_of(part: KeptPart, at: float, *, is_foreign: bool = False) -> str:
    """Return the record of a part that was posted at a time, in seconds since the Unix epoch.

    Args:
        is_foreign: Whether another process than the session's has posted it.
    """
    record: Plain = {"part": part.id, "at": at, "message": part.plain}
    if is_foreign:
        record["is_foreign"] = True
    if 0 < len(part.data) <= MAX_RECORDED_BYTES:
        record["data"] = base64.b64encode(part.data).decode()
    return json.dumps(record, ensure_ascii=False)
