"""History sinks on disk: a file of JSON lines for each session, and one SQLite database for all sessions.

Both work in a thread, so that the event loop never waits for the disk. They keep pictures only with `images=True`.
The files hold the words of the conversation: only their owner may read them (mode 0600).
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vivavoce.agents.core.sqlite_file import open_sqlite
from vivavoce.agents.core.threads import SerialThread
from vivavoce.agents.history.sink import HistoryChange, HistorySink, apply_changes, in_order
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.private_file import private_file
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.llm.chat_json import HISTORY_VERSION, item_from_json, item_to_json

logger = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE IF NOT EXISTS history_items (
    session_id TEXT NOT NULL,
    item_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (session_id, item_id)
) WITHOUT ROWID
"""


class JsonLinesHistorySink(HistorySink):
    """Appends each change as one line to `<folder>/<session id>.jsonl`; no line is ever changed.

    A line that a crash cut short is skipped when the file is read.

    Args:
        folder: Made if it does not exist. Characters of a session id that a file name cannot have are percent-encoded,
            so that each id has a file of its own, which `load` finds again.
        images: Whether pictures are kept, as base64.
    """

    def __init__(self, folder: str | Path, *, images: bool = False) -> None:
        self._folder = Path(folder)
        self._images = images
        self._thread = SerialThread("history")

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Append these changes."""
        await self._thread.run(self._append, session_id, changes)

    async def load(self, session_id: str) -> ChatContext:
        """Return the items of a session.

        Raises:
            ConfigurationError: A line is of another version or shape.
        """
        return await self._thread.run(self._read, session_id)

    def _append(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        lines = [
            {"version": HISTORY_VERSION, "change": c.kind, "item": item_to_json(c.item, images=self._images)}
            for c in changes
        ]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(private_file(self._path(session_id)), "r+b") as file:
            if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                data = b"\n" + data  # the rest of a crash stays a line of its own
            file.write(data)

    def _read(self, session_id: str) -> ChatContext:
        items: dict[str, ChatItem] = {}
        path = self._path(session_id)
        if path.exists():
            for number, line in enumerate(path.read_bytes().splitlines(), start=1):
                try:
                    plain = json.loads(line)
                except ValueError:
                    logger.warning("%s: line %d is incomplete and is skipped", path, number)
                    continue
                apply_changes(items, [_change(plain, f"{path}: line {number}")])
        return in_order(items.values())

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{quote(session_id, safe='')}.jsonl"


class SqliteHistorySink(HistorySink):
    """Keeps the items of all sessions in one SQLite file, which several processes may share.

    The table `history_items` has `session_id`, `item_id`, `sequence` and the `item` as JSON.

    Args:
        path: The file; it and its folder are made if they do not exist.
        images: Whether pictures are kept, as base64.
    """

    def __init__(self, path: str | Path, *, images: bool = False) -> None:
        self._path = Path(path)
        self._images = images
        self._thread = SerialThread("history")
        self._opened: sqlite3.Connection | None = None

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep all of these changes, or none."""
        await self._thread.run(self._store, session_id, changes)

    async def load(self, session_id: str) -> ChatContext:
        """Return the items of a session.

        Raises:
            ConfigurationError: The file is of another version.
        """
        return await self._thread.run(self._read, session_id)

    async def aclose(self) -> None:
        """Close the file; a later call opens it again."""
        await self._thread.run(self._close)

    def _store(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        with self._connection() as connection:  # a transaction
            for change in changes:
                item = change.item
                if change.kind == "removed":
                    connection.execute(
                        "DELETE FROM history_items WHERE session_id = ? AND item_id = ?", (session_id, item.id)
                    )
                else:
                    text = json.dumps(item_to_json(item, images=self._images))
                    connection.execute(
                        "INSERT INTO history_items VALUES (?, ?, ?, ?) ON CONFLICT (session_id, item_id) "
                        "DO UPDATE SET sequence = excluded.sequence, item = excluded.item",
                        (session_id, item.id, item.sequence, text),
                    )

    def _read(self, session_id: str) -> ChatContext:
        rows = self._connection().execute(
            "SELECT item_id, item FROM history_items WHERE session_id = ? ORDER BY sequence", (session_id,)
        )
        return ChatContext([item_from_json(json.loads(text), place=f"{self._path}: {name}") for name, text in rows])

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._opened = open_sqlite(self._path, kind="a history", version=HISTORY_VERSION, schema=SCHEMA)
        return self._opened

    def _close(self) -> None:
        connection, self._opened = self._opened, None
        if connection is not None:
            connection.close()


def _change(plain: Any, place: str) -> HistoryChange:
    if not isinstance(plain, dict) or plain.get("version") != HISTORY_VERSION:
        raise ConfigurationError(f"{place} must be a change of version {HISTORY_VERSION}")
    kind = plain.get("change")
    if kind not in ("added", "replaced", "removed"):
        raise ConfigurationError(f"{place}: change must be added, replaced or removed, got {kind!r}")
    return HistoryChange(kind, item_from_json(plain.get("item"), place=place))
