"""Opens SQLite files that processes share and that only their owner may read, by default in the user's state folder."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from vivavoce.pipelines.core.errors import ConfigurationError, StoreUnavailable
from vivavoce.pipelines.core.private_file import private_file

BUSY_LIMIT = 5.0
"""Seconds to wait for another process that writes to the same file."""

PAUSE = 0.01
"""Seconds between two attempts to open a file that another process makes at the same time."""


class FileVersionError(ConfigurationError):
    """A file of another version, such as that of a later release before a rollback."""


def state_folder() -> Path:
    """Return the folder for state that vivavoce keeps between runs of the user's programs.

    Raises:
        StoreUnavailable: The user has no home folder.
    """
    given = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (Path(given) if given else Path.home() / ".local" / "state") / "vivavoce"
    except RuntimeError as error:
        raise StoreUnavailable(
            "SqliteStore() keeps its file in the user's state folder, and the user has no home folder; set HOME or "
            "XDG_STATE_HOME, or give the store a path"
        ) from error


def open_sqlite(
    path: Path,
    *,
    kind: str,
    version: int,
    schema: str,
    tables: Collection[str] | None = None,
    isolation_level: Literal["DEFERRED"] | None = "DEFERRED",
    remedy: str = "take another file",
) -> sqlite3.Connection:
    """Open a file, made if it does not exist; its folder must be there. The calls may come from several threads.

    Args:
        kind: The content, for the error: `"a history"`.
        version: The only version that is read; a new file gets it.
        schema: Statements that make the tables if there are none.
        tables: The only tables that the file may have; None: any.
        isolation_level: None: the caller begins and ends all transactions.
        remedy: The remedy for a file with other tables.
    Raises:
        FileVersionError: The file is of another version, or has other tables.
        sqlite3.Error: It cannot be used.
    """
    for _ in range(round(BUSY_LIMIT / PAUSE)):
        try:
            return _opened(path, kind, version, schema, tables, isolation_level, remedy)
        except sqlite3.OperationalError as error:
            # SQLite does not wait by itself for another process that changes the journal mode of a new file.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        threading.Event().wait(PAUSE)
    return _opened(path, kind, version, schema, tables, isolation_level, remedy)


def _opened(
    path: Path,
    kind: str,
    version: int,
    schema: str,
    tables: Collection[str] | None,
    isolation_level: Literal["DEFERRED"] | None,
    remedy: str,
) -> sqlite3.Connection:
    connection = sqlite3.connect(
        private_file(path), timeout=BUSY_LIMIT, check_same_thread=False, isolation_level=isolation_level
    )
    try:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, version):
            raise FileVersionError(
                f"{path} must be {kind} of version {version}, got version {found}; take another file"
            )
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables is not None and (others := sorted(names - {*tables})):
            raise FileVersionError(f"{path} must be {kind}, got a file with the table {others[0]!r}; {remedy}")
        connection.execute("PRAGMA journal_mode = WAL")  # a reader does not block a writer
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(schema)
        connection.execute(f"PRAGMA user_version = {version}")
    except BaseException:
        connection.close()
        raise
    return connection
