"""SqliteStore: session state in a SQLite file, which processes of one machine share."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio

from vivavoce.agents.core.sqlite_file import BUSY_LIMIT, open_sqlite, state_folder
from vivavoce.agents.core.threads import SerialThread
from vivavoce.agents.core.values import check_encodable
from vivavoce.agents.memory.stores.limit import CALL_LIMIT, within
from vivavoce.agents.memory.stores.sqlite_call import SqliteCall
from vivavoce.agents.memory.stores.sqlite_tables import (
    SCHEMA,
    TABLES,
    entries_of,
    erase,
    next_records,
    note_use,
    over,
    state_of,
    text_of,
)
from vivavoce.agents.memory.stores.store import (
    CALLS,
    METADATA,
    SWEPT,
    Change,
    LogState,
    Place,
    Record,
    SessionStore,
    SessionSummary,
)
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError, StoreUnavailable

T = TypeVar("T")

logger = logging.getLogger(__name__)

VERSION = 1

LOOK_INTERVAL, LONGEST_LOOK = 0.05, 0.25
"""Seconds between two looks whether a process has written to the file; the second value is for files without writes."""
READ_INTERVAL = 2.0
"""Seconds after which the records are read in any case: the file's times are coarse."""

USED_INTERVAL = 1.0
"""Seconds between two notes that a session is used."""

MAX_NOTED = 10_000
"""The most sessions with such a note in memory; beyond that the old notes are dropped."""

LINGER = 1.0
"""Seconds for which the thread waits for further calls."""

EMPTYING_LIMIT = 1.0
"""Seconds within which the other processes must leave the file alone for a moment, so that its log can be emptied."""

Written = tuple[int, ...]
"""Marks of the last write to the file."""


class SqliteStore(SessionStore):
    """Keeps sessions in a file. Its calls run in a thread; calls that wait at the same time share one transaction.

    A call whose caller has stopped waiting is not begun; a call that has begun takes effect.

    The file holds the words of conversations: only its owner may read it (mode 0600). Erased words are overwritten, in
    the file's log too as soon as no other process is reading or writing for a moment.

    Args:
        path: The file; it and its folder are made if they do not exist. None for `vivavoce/sessions.db` in the
            user's state folder (`XDG_STATE_HOME`, else `~/.local/state`).
        clock: Time of leases, and of sessions that are erased when they are idle.
        timeout: Seconds for one call; calls of a session end earlier, by `MemoryOptions.timeout`.
    """

    def __init__(
        self, path: str | Path | None = None, *, clock: Clock | None = None, timeout: float = CALL_LIMIT
    ) -> None:
        check_number("timeout", timeout, above=0, unit="s")
        self._given = None if path is None else Path(path)
        self._timeout = timeout
        self._clock = LoopClock() if clock is None else clock
        self._inherited: tuple[sqlite3.Connection, ...] = ()
        """Connections of the process from which this one was forked. SQLite forbids even to close them here."""
        self._begin()

    def _begin(self) -> None:
        """Set the attributes that belong to one process."""
        self._process = os.getpid()
        self._thread = SerialThread("session store", linger=LINGER)
        self._waiting: deque[SqliteCall] = deque()
        self._last: asyncio.Future[None] | None = None
        """The end of the newest batch."""
        self._is_due = False
        """Whether that batch has not begun."""
        self._opened: sqlite3.Connection | None = None
        self._noted: dict[str, float] = {}
        """The times of the last notes in the file that a session is used. Only the thread uses it."""
        self._holds_erased = False
        """Whether the file's log may hold words that were erased."""
        self._marks: Written = ()
        self._marked_at = -math.inf

    def __reduce__(self) -> tuple[Callable[..., SqliteStore], tuple[Path | None]]:
        """Make the same store in another process, with a connection of its own."""
        return (partial(SqliteStore, timeout=self._timeout), (self._given,))

    @property
    def path(self) -> Path:
        """The file."""
        return state_folder() / "sessions.db" if self._given is None else self._given

    async def read(self, place: Place, entry: str) -> str | None:
        """Return the text of an entry, or None without one."""
        return await self._run(lambda database: text_of(database, place, entry), only_reads=True)

    async def read_all(self, place: Place) -> dict[str, str]:
        """Return the texts of all entries, by name."""
        return await self._run(lambda database: entries_of(database, place), only_reads=True)

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        """Set the text of an entry; with `nx` only if it does not exist. Return whether it was written."""

        def write(database: sqlite3.Connection) -> bool:
            conflict = "DO NOTHING" if nx else "DO UPDATE SET text = excluded.text"
            done = database.execute(
                f"INSERT INTO entries VALUES (?, ?, ?, ?) ON CONFLICT (session_id, namespace, entry) {conflict}",
                (place.session_id, place.name, entry, text),
            )
            return done.rowcount > 0

        return await self._run(write, place.session_id)

    async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
        """Set the texts of these entries, by name: all of them, or after an error none."""
        check_encodable([*texts, *texts.values()])
        rows = [(place.session_id, place.name, entry, text) for entry, text in texts.items()]
        replace = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)"
        await self._run(lambda database: database.executemany(replace, rows).rowcount, place.session_id)

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        """Change an entry by a function within a transaction, and return its result."""
        is_removed = False

        def carry_out(database: sqlite3.Connection) -> T:
            nonlocal is_removed
            before = text_of(database, place, entry)
            after, result = change(before)
            is_removed = after is None and before is not None
            at = (place.session_id, place.name, entry)
            if after is None and before is not None:
                database.execute("DELETE FROM entries WHERE session_id = ? AND namespace = ? AND entry = ?", at)
            elif after is not None and after != before:
                database.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (*at, after))
            return result

        result = await self._run(carry_out, place.session_id)
        if is_removed and place.session_id == CALLS:  # the words of a call that is over are in no file, as if erased
            await self._empty_log(is_needed=True)
        return result

    async def log(self, place: Place, texts: Sequence[str], *, keep: int, closes: str = "") -> int | None:
        """Append records and drop all but the newest `keep`; return the index of the next record to come."""
        check_encodable(texts)

        def append(database: sqlite3.Connection) -> int | None:
            at, state = (place.session_id, place.name), state_of(database, place)
            if state.closed_by:
                return None
            numbered = [(*at, number, text) for number, text in enumerate(texts, state.next_index)]
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", numbered)
            following = state.next_index + len(numbered)
            database.execute("INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?)", (*at, following, closes))
            if following > keep:
                database.execute(
                    "DELETE FROM records WHERE session_id = ? AND log = ? AND number < ?", (*at, following - keep)
                )
            return following

        return await self._run(append, place.session_id)

    async def log_state(self, place: Place) -> LogState:
        """Return the state of a log."""
        return await self._run(lambda database: state_of(database, place), only_reads=True)

    async def reopen(self, session_id: str, closed_by: str) -> None:
        """Open the logs of a session again that were closed for that reason."""
        await self._run(
            lambda database: (
                database.execute(
                    "UPDATE logs SET closed_by = '' WHERE session_id = ? AND closed_by = ?", (session_id, closed_by)
                ).rowcount
            )
        )

    async def follow(self, starts: Mapping[Place, int], limit: int, seconds: float) -> dict[Place, list[Record]]:
        """Return the next records of logs as soon as there are any, or none after that time."""
        until = self._clock.now() + seconds
        while True:
            written = await self._written()
            found = await self._run(lambda database: next_records(database, starts, limit), only_reads=True)
            left = until - self._clock.now()
            if found or left <= 0:
                return found
            await self._written_since(written, min(left, READ_INTERVAL))

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        """Take or renew the lease of a session; return False if another holder has it."""
        now = self._clock.wall()

        def take(database: sqlite3.Connection) -> bool:
            row = database.execute("SELECT holder, until FROM leases WHERE session_id = ?", (session_id,)).fetchone()
            if row is not None and row[0] != holder and now < row[1] and not takes_over:
                return False
            database.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (session_id, holder, now + seconds))
            return True

        return await self._run(take)

    async def release(self, session_id: str, holder: str) -> None:
        """Give the lease up, if this holder has it."""
        await self._run(
            lambda database: (
                database.execute(
                    "DELETE FROM leases WHERE session_id = ? AND holder = ?", (session_id, holder)
                ).rowcount
            )
        )

    async def is_held(self, session_id: str) -> bool:
        """Return whether a holder has the lease of a session."""
        now = self._clock.wall()

        def look(database: sqlite3.Connection) -> bool:
            found = database.execute("SELECT 1 FROM leases WHERE session_id = ? AND until > ?", (session_id, now))
            return found.fetchone() is not None

        return await self._run(look, only_reads=True)

    async def keep(self, session_id: str, seconds: float | None) -> None:
        """Have the session erased after so many seconds without use, unless it is pinned or held; None for never."""
        now = self._clock.wall()
        await self._run(
            lambda database: (
                database.execute(
                    "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (session_id) DO UPDATE SET keep = excluded.keep",
                    (session_id, now, seconds),
                ).rowcount
            ),
            session_id,
        )

    async def sweep(self, limit: int = SWEPT) -> list[str]:
        """Erase up to `limit` sessions whose time is over; return their ids."""
        now = self._clock.wall()

        def erase_all(database: sqlite3.Connection) -> list[str]:
            erased = over(database, now, limit)
            for session_id in erased:
                self._erase(database, session_id)
            return erased

        # Most often there is none, and other processes need not wait for that.
        found = await self._run(lambda database: over(database, now, 1), only_reads=True)
        erased = await self._run(erase_all) if found else []
        await self._empty_log(is_needed=bool(erased))
        return erased

    async def summaries(self) -> list[SessionSummary]:
        """Return all sessions, the one written last first."""

        def read(database: sqlite3.Connection) -> list[SessionSummary]:
            rows = database.execute("SELECT session_id, used_at FROM sessions ORDER BY used_at DESC").fetchall()
            return [
                SessionSummary.of(name, entries_of(database, Place(name, METADATA)), used_at) for name, used_at in rows
            ]

        return await self._run(read, only_reads=True)

    async def delete(self, session_id: str) -> bool:
        """Erase a session; return whether it existed."""
        was_there = await self._run(lambda database: self._erase(database, session_id))
        await self._empty_log(is_needed=was_there)
        return was_there

    async def aclose(self) -> None:
        """Close the file; a later call opens it again."""
        self._check_process()
        await self._thread.run(self._close)

    async def _written_since(self, written: Written, seconds: float) -> None:
        """Wait until a process has written to the file, for at most so many seconds; SQLite reports no writes."""
        pause, until = LOOK_INTERVAL, self._clock.now() + seconds
        while (left := until - self._clock.now()) > 0:
            await anyio.sleep(min(left, pause))
            if await self._written() != written:
                return
            pause = min(1.5 * pause, LONGEST_LOOK)

    async def _written(self) -> Written:
        """Return marks of the last write, at most `LOOK_INTERVAL` old, so that several readers share one look."""
        self._check_process()
        if self._clock.now() - self._marked_at >= LOOK_INTERVAL:
            self._marked_at = self._clock.now()
            self._marks = await within(self._timeout, self._thread.run(self._look))
        return self._marks

    def _look(self) -> Written:
        """Return size and time of the file and of its log. Runs in the thread, since a disk may hang."""
        marks: list[int] = []
        for path in (self.path, f"{self.path}-wal"):
            try:
                found = os.stat(path)
            except OSError:  # no file yet; a call reports one that cannot be read
                marks += (-1, -1)
            else:
                marks += (found.st_size, found.st_mtime_ns)
        return tuple(marks)

    # --- the thread

    async def _run(
        self,
        run: Callable[[sqlite3.Connection], T],
        uses: str | None = None,
        *,
        only_reads: bool = False,
    ) -> T:
        """Run a call in the thread.

        Args:
            uses: The session that it writes to.
        """
        self._check_process()
        call = SqliteCall(run, uses, only_reads=only_reads)
        self._waiting.append(call)
        try:
            await within(self._timeout, asyncio.shield(self._batch()))  # it carries out the calls of others too
        except BaseException:
            call.give_up()
            raise
        result: T = call.result()
        return result

    def _check_process(self) -> None:
        """Begin anew in a forked process, which has neither the thread nor a right to the connection."""
        if self._process != os.getpid():
            if self._opened is not None:
                self._inherited += (self._opened,)
            self._begin()

    def _batch(self) -> asyncio.Future[None]:
        """Return the future of a batch that has not begun; it carries out the calls that wait now."""
        loop = asyncio.get_running_loop()
        if not self._is_due or self._last is None or self._last.get_loop() is not loop:
            self._is_due = True  # before the thread can begin
            try:
                self._last = loop.run_in_executor(self._thread, self._work)
            except BaseException:
                self._is_due = False
                raise
        return self._last

    def _work(self) -> None:
        """Carry out all calls that wait, in one transaction."""
        self._is_due = False  # first: a call that is added from now on needs another batch
        calls: list[SqliteCall] = []
        while self._waiting:
            calls.append(self._waiting.popleft())
        if not calls:
            return
        try:
            database = self._database()
            database.execute("BEGIN" if all(call.only_reads for call in calls) else "BEGIN IMMEDIATE")
            try:
                for call in calls:
                    call.carry_out(database)
                now = self._clock.wall()
                used = {call.uses for call in calls if call.uses is not None and call.has_written}
                due = [one for one in used if now - self._noted.get(one, -math.inf) >= USED_INTERVAL]
                for session_id in due:
                    note_use(database, session_id, now)
                database.execute("COMMIT")
                self._note(due, now)
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
        except Exception as error:  # noqa: BLE001 - raised in each caller
            for call in calls:
                call.fail(self._described(error))

    def _note(self, used: Iterable[str], now: float) -> None:
        """Remember the times that the file has for the use of sessions."""
        if len(self._noted) >= MAX_NOTED:
            self._noted = {one: at for one, at in self._noted.items() if now - at < USED_INTERVAL}
        self._noted.update(dict.fromkeys(used, now))

    def _erase(self, database: sqlite3.Connection, session_id: str) -> bool:
        self._noted.pop(session_id, None)  # a later write of it is noted at once
        return erase(database, session_id)

    def _described(self, error: Exception) -> Exception:
        if isinstance(error, StoreError | ConfigurationError):
            return error
        found: Exception = StoreError(f"the session store {self.path} failed: {error}")
        if isinstance(error, sqlite3.OperationalError | OSError):
            found = StoreUnavailable(f"the session store {self.path} cannot be used: {error}")
        found.__cause__ = error
        return found

    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            path = self.path
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._opened = open_sqlite(
                path,
                kind="a session store",
                version=VERSION,
                schema=SCHEMA,
                tables=TABLES,
                isolation_level=None,
                remedy="the files of SqliteHistorySink and SqliteCheckpoints, of vivavoce 0.1, are not read any more: "
                "take another file",
            )
            self._opened.execute("PRAGMA secure_delete = ON")  # erased words do not stay in the file
        return self._opened

    async def _empty_log(self, *, is_needed: bool) -> None:
        """Empty the log of changes, which still holds erased words."""
        self._holds_erased = self._holds_erased or is_needed
        if self._holds_erased:
            self._holds_erased = not await within(self._timeout, self._thread.run(self._was_log_emptied))

    def _was_log_emptied(self) -> bool:
        """Empty the log; return False if other processes use it all the time. The next sweep tries again."""
        try:
            database = self._database()
            database.execute(f"PRAGMA busy_timeout = {round(EMPTYING_LIMIT * 1000)}")
            try:
                is_busy = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                database.execute(f"PRAGMA busy_timeout = {round(BUSY_LIMIT * 1000)}")
        except (sqlite3.Error, OSError) as error:
            logger.warning("The log of the session store %s could not be emptied: %s", self.path, error)
            return False
        return not is_busy

    def _close(self) -> None:
        database, self._opened = self._opened, None
        if database is not None:
            database.close()
