"""Sinks on disk: a file of JSON lines for each session, and one SQLite database for all of them.

Both work in a thread, so that the loop never waits for the disk, and keep pictures only when asked to. What was said is
in these files: only their owner may read them (mode 0600).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote

from vivavoce.agents.history.sink import HistoryChange, HistorySink, apply_changes, in_order
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.llm.chat_json import HISTORY_VERSION, item_from_json, item_to_json

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

BUSY_LIMIT = 5.0
"""Seconds to wait for another process that writes to the same database."""

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
    """Appends each change as one line to `<folder>/<session id>.jsonl`; nothing in the file is ever changed.

    A line that a crash cut short is passed over when the file is read.

    Args:
        folder: Made if it is not there. Characters of a session id that a file name cannot have are percent-encoded.
        images: Whether pictures are kept, as base64.
    """

    def __init__(self, folder: str | Path, *, images: bool = False) -> None:
        self._folder = Path(folder)
        self._images = images
        self._thread = FileThread("history")

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
        with open(_private(self._path(session_id)), "r+b") as file:
            if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                data = b"\n" + data  # what a crash left behind stays a line of its own
            file.write(data)

    def _read(self, session_id: str) -> ChatContext:
        items: dict[str, ChatItem] = {}
        path = self._path(session_id)
        if path.exists():
            for number, line in enumerate(path.read_bytes().splitlines(), start=1):
                try:
                    plain = json.loads(line)
                except ValueError:
                    logger.warning("%s: line %d is not whole and is passed over", path, number)
                    continue
                apply_changes(items, [_change(plain, f"{path}: line {number}")])
        return in_order(items.values())

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{quote(session_id, safe='')}.jsonl"


class SqliteHistorySink(HistorySink):
    """Keeps the items of all sessions in one SQLite file, which several processes may share.

    The table `history_items` has `session_id`, `item_id`, `sequence` and the `item` as JSON.

    Args:
        path: The file; it and its folder are made if they are not there.
        images: Whether pictures are kept, as base64.
    """

    def __init__(self, path: str | Path, *, images: bool = False) -> None:
        self._path = Path(path)
        self._images = images
        self._thread = FileThread("history")
        self._opened: sqlite3.Connection | None = None

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep these changes, all or none of them."""
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
            # Calls come one after the other, but not always from the same thread.
            connection = sqlite3.connect(_private(self._path), timeout=BUSY_LIMIT, check_same_thread=False)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._opened = connection
        return self._opened

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, HISTORY_VERSION):
            raise ConfigurationError(
                f"{self._path} must be a history of version {HISTORY_VERSION}, got version {version}; take another file"
            )
        connection.execute("PRAGMA journal_mode = WAL")  # a reader does not hold a writer up
        connection.execute("PRAGMA synchronous = NORMAL")
        with connection:
            connection.execute(SCHEMA)
            connection.execute(f"PRAGMA user_version = {HISTORY_VERSION}")

    def _close(self) -> None:
        connection, self._opened = self._opened, None
        if connection is not None:
            connection.close()


class FileThread(Executor):
    """Runs calls one after the other in a thread that lives while there are any.

    The thread is a daemon: a disk that hangs does not hold the process up. It serves any loop, and virtual time stands
    still for it, since it is an executor.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_working = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns. Cancelled, it leaves a call that has begun alone."""
        return await asyncio.get_running_loop().run_in_executor(self, partial(call, *args, **kwargs))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Take a call; see `concurrent.futures.Executor`."""
        future: Future[T] = Future()
        with self._lock:
            if not self._is_working:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._is_working = True
            self._calls.append((future, partial(fn, *args, **kwargs)))
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._calls:
                    self._is_working = False
                    return
                future, call = self._calls.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                future.set_exception(error)
            else:
                future.set_result(result)


def _private(path: Path) -> Path:
    """Make the file, for its owner only, if it is not there."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return path


def _change(plain: Any, place: str) -> HistoryChange:
    if not isinstance(plain, dict) or plain.get("version") != HISTORY_VERSION:
        raise ConfigurationError(f"{place} must be a change of version {HISTORY_VERSION}")
    kind = plain.get("change")
    if kind not in ("added", "replaced", "removed"):
        raise ConfigurationError(f"{place}: change must be added, replaced or removed, got {kind!r}")
    return HistoryChange(kind, item_from_json(plain.get("item"), place=place))
