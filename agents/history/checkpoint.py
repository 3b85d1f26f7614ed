"""CheckpointStore: the port that keeps running calls outside of their processes, and SqliteCheckpoints, its file.

A running call has one record. Its session writes the conversation into it after each turn; the end of the call removes
it. If the call's process dies, the record stays, and another process claims it and continues the call. A claim is a
change of the record's owner: of several processes that claim one record at the same time, one succeeds.
"""

from __future__ import annotations

import json
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from vivavoce.agents.core.sqlite_file import open_sqlite
from vivavoce.agents.core.threads import SerialThread

P = ParamSpec("P")
T = TypeVar("T")

CHECKPOINT_VERSION = 1

SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoints (
    lease TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    call TEXT NOT NULL,
    conversation TEXT NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A running call, as another process needs it to continue the call. It holds no key and no secret.

    Args:
        lease: Key of the record: the id of the call's first job. It stays the same when the call continues.
        owner: The process that has the call, in the words of the worker.
        url: The call's server.
        room: The call's room.
        agent_name: The name that the call's job was dispatched to.
        dispatch_id: The call's first dispatch.
        metadata: The dispatcher's metadata.
        attributes: The dispatcher's keys and values.
        identity: The agent's identity in the room; empty while it is not known.
        sid: The id that the server gave the agent when it joined the room; empty while it is not known.
        written_at: Time of the last change, in seconds since 1970.
        participant: The participant that the call's job is for; empty for a job of the room.
        dispatched: How often the call was dispatched again.
        conversation: The session's `snapshot()` as JSON text; empty before the first one.
    """

    lease: str
    owner: str
    url: str
    room: str
    agent_name: str = ""
    dispatch_id: str = ""
    metadata: str = field(default="", repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)
    identity: str = ""
    sid: str = ""
    written_at: float = 0.0
    participant: str = ""
    dispatched: int = 0
    conversation: str = field(default="", repr=False)


class CheckpointStore(ABC):
    """Keeps the records of running calls, for all processes that may continue each other's calls.

    A store is a component: workers may share one. After `aclose()` it can be used again.
    """

    @abstractmethod
    async def write(self, checkpoint: Checkpoint) -> None:
        """Keep the record in place of the one with the same lease; no effect if another process owns that one."""

    @abstractmethod
    async def remove(self, lease: str, *, owner: str) -> None:
        """Remove a record, if it is there and `owner` owns it."""

    @abstractmethod
    async def read(self) -> list[Checkpoint]:
        """Return all records, without their conversations."""

    @abstractmethod
    async def claim(self, lease: str, *, owner: str, by: str, at: float) -> Checkpoint | None:
        """Change the owner of a record and return the changed record; None: it is gone, or `owner` does not own it.

        Args:
            owner: The present owner.
            by: The new owner.
            at: The time, in seconds since 1970.
        """

    async def aclose(self) -> None:
        """Release the store's resources; a later call acquires them again."""


class SqliteCheckpoints(CheckpointStore):
    """Keeps the records in one SQLite file, which all processes of one machine may share.

    The calls work in a thread, so that the event loop never waits for the disk. The file holds the words of
    conversations: only its owner may read it (mode 0600).

    Args:
        path: The file; it and its folder are made if they do not exist. None: `vivavoce/checkpoints.db` in the user's
            state folder (`XDG_STATE_HOME`, else `~/.local/state`).
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._given = path
        self._opened: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._thread = SerialThread("checkpoints")

    def __reduce__(self) -> tuple[type[SqliteCheckpoints], tuple[str | Path | None]]:
        return (SqliteCheckpoints, (self._given,))

    @property
    def path(self) -> Path:
        """The file."""
        return state_folder() / "checkpoints.db" if self._given is None else Path(self._given)

    async def write(self, checkpoint: Checkpoint) -> None:
        """Keep the record in place of the one with the same lease, if no other process owns that one."""
        await self._run(self._write, checkpoint)

    async def remove(self, lease: str, *, owner: str) -> None:
        """Remove a record, if it is there and `owner` owns it."""
        await self._run(self._remove, lease, owner)

    async def read(self) -> list[Checkpoint]:
        """Return all records, without their conversations.

        Raises:
            ConfigurationError: The file is of another version.
        """
        return await self._run(self._read)

    async def claim(self, lease: str, *, owner: str, by: str, at: float) -> Checkpoint | None:
        """Change the owner of a record, if `owner` owns it."""
        return await self._run(self._claim, lease, owner, by, at)

    async def aclose(self) -> None:
        """Close the file; a later call opens it again."""
        if self._opened is not None:
            await self._run(self._close)

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._process != os.getpid():  # a forked process has neither the thread nor a right to the connection
            self._opened, self._process, self._thread = None, os.getpid(), SerialThread("checkpoints")
        return await self._thread.run(call, *args, **kwargs)

    # --- in the thread

    def _write(self, checkpoint: Checkpoint) -> None:
        with self._connection() as connection:  # a transaction
            connection.execute(
                "INSERT INTO checkpoints VALUES (?, ?, ?, ?) ON CONFLICT (lease) DO UPDATE SET call = excluded.call, "
                "conversation = excluded.conversation WHERE owner = excluded.owner",
                _row(checkpoint),
            )

    def _remove(self, lease: str, owner: str) -> None:
        with self._connection() as connection:
            connection.execute("DELETE FROM checkpoints WHERE lease = ? AND owner = ?", (lease, owner))
        # The log of changes still holds the words. If another process writes now, its own removal empties the log.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _read(self) -> list[Checkpoint]:
        rows = self._connection().execute("SELECT lease, owner, call, '' FROM checkpoints ORDER BY lease")
        return [_checkpoint(*row) for row in rows]

    def _claim(self, lease: str, owner: str, by: str, at: float) -> Checkpoint | None:
        connection = self._connection()
        with connection:
            connection.execute("BEGIN IMMEDIATE")  # no other process writes between the reading and the writing
            found = connection.execute(
                "SELECT lease, owner, call, conversation FROM checkpoints WHERE lease = ? AND owner = ?", (lease, owner)
            ).fetchone()
            if found is None:
                return None
            claimed = replace(_checkpoint(*found), owner=by, written_at=at)
            connection.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", _row(claimed))
        return claimed

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            path = self.path
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened = open_sqlite(path, kind="a file of checkpoints", version=CHECKPOINT_VERSION, schema=SCHEMA)
            opened.execute("PRAGMA secure_delete = ON")  # the words of a call that is over do not stay in the file
            self._opened = opened
        return self._opened

    def _close(self) -> None:
        connection, self._opened = self._opened, None
        if connection is not None:
            connection.close()


def state_folder() -> Path:
    """Return the folder for state that vivavoce keeps between runs of the user's programs."""
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given else Path.home() / ".local" / "state") / "vivavoce"


def _row(checkpoint: Checkpoint) -> tuple[str, str, str, str]:
    call: dict[str, Any] = asdict(checkpoint)
    lease, owner, conversation = (call.pop(name) for name in ("lease", "owner", "conversation"))
    return lease, owner, json.dumps(call), conversation


def _checkpoint(lease: str, owner: str, call: str, conversation: str) -> Checkpoint:
    return Checkpoint(lease=lease, owner=owner, conversation=conversation, **json.loads(call))
