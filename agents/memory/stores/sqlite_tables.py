"""The tables of a SqliteStore, and the queries that several of its calls make."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from vivavoce.agents.memory.stores.store import CALLS, KEEP, METADATA, LogState, Place, Record

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (session_id TEXT PRIMARY KEY, used_at REAL NOT NULL, keep REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    session_id TEXT, namespace TEXT, entry TEXT, text TEXT NOT NULL, PRIMARY KEY (session_id, namespace, entry)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logs (
    session_id TEXT, log TEXT, next INTEGER NOT NULL, closed_by TEXT NOT NULL, PRIMARY KEY (session_id, log)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
    session_id TEXT, log TEXT, number INTEGER, text TEXT NOT NULL, PRIMARY KEY (session_id, log, number)
) WITHOUT ROWID;
"""

TABLES = ("sessions", "leases", "entries", "logs", "records")

OVER = f"""
SELECT session_id FROM sessions WHERE ? - used_at > keep AND session_id <> '{CALLS}'
AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.session_id = sessions.session_id AND until > ?)
AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.session_id = sessions.session_id
    AND namespace = '{METADATA}' AND entry = 'pinned' AND text = 'true')
LIMIT ?
"""
"""The query for the sessions whose time is over."""


def text_of(database: sqlite3.Connection, place: Place, entry: str) -> str | None:
    """Return the text of an entry, or None without one."""
    row = database.execute(
        "SELECT text FROM entries WHERE session_id = ? AND namespace = ? AND entry = ?",
        (place.session_id, place.name, entry),
    ).fetchone()
    return None if row is None else row[0]


def entries_of(database: sqlite3.Connection, place: Place) -> dict[str, str]:
    """Return the texts of a namespace, by entry."""
    rows = database.execute(
        "SELECT entry, text FROM entries WHERE session_id = ? AND namespace = ?", (place.session_id, place.name)
    )
    return dict(rows.fetchall())


def state_of(database: sqlite3.Connection, place: Place) -> LogState:
    """Return the state of a log."""
    row = database.execute(
        "SELECT next, closed_by FROM logs WHERE session_id = ? AND log = ?", (place.session_id, place.name)
    ).fetchone()
    return LogState() if row is None else LogState(*row)


def next_records(database: sqlite3.Connection, starts: Mapping[Place, int], limit: int) -> dict[Place, list[Record]]:
    """Return the next records of logs, without the logs that have none."""
    found: dict[Place, list[Record]] = {}
    for place, start in starts.items():
        rows = database.execute(
            "SELECT number, text FROM records WHERE session_id = ? AND log = ? AND number >= ? ORDER BY number LIMIT ?",
            (place.session_id, place.name, start, limit),
        ).fetchall()
        if rows:
            found[place] = [Record(number, text) for number, text in rows]
    return found


def erase(database: sqlite3.Connection, session_id: str) -> bool:
    """Erase a session; return whether it existed."""
    rows = [database.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,)).rowcount for table in TABLES]
    return rows[0] > 0


def over(database: sqlite3.Connection, now: float, limit: int) -> list[str]:
    """Return up to `limit` sessions whose time is over."""
    return [session_id for (session_id,) in database.execute(OVER, (now, now, limit)).fetchall()]


def note_use(database: sqlite3.Connection, session_id: str, now: float) -> None:
    """Note that a session is written to now."""
    database.execute(
        "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (session_id) DO UPDATE SET used_at = excluded.used_at",
        (session_id, now, KEEP),
    )
