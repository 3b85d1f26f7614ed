"""InProcessStore: session state in this process, for sessions without another store; it ends with the process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.agents.memory.stores.store import (
    CALLS,
    KEEP,
    METADATA,
    SWEPT,
    Change,
    LogState,
    Place,
    Record,
    SessionStore,
    SessionSummary,
)
from vivavoce.pipelines.core.clock import Clock, LoopClock

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Log:
    records: deque[str] = field(default_factory=deque)
    next_index: int = 0
    closed_by: str = ""


@dataclass(slots=True, eq=False)
class _Session:
    used_at: float
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    logs: dict[str, _Log] = field(default_factory=dict)
    keep: float | None = KEEP


class InProcessStore(SessionStore):
    """Keeps sessions in memory. Use it from one event loop.

    Args:
        clock: Time of leases, and of sessions that are erased when they are idle.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = LoopClock() if clock is None else clock
        self._sessions: dict[str, _Session] = {}
        self._leases: dict[str, tuple[str, float]] = {}
        self._news: dict[Place, set[anyio.Event]] = {}
        """The waiting calls of `follow()`, by log."""

    async def read(self, place: Place, entry: str) -> str | None:
        """Return the text of an entry, or None without one."""
        return self._entries(place).get(entry)

    async def read_all(self, place: Place) -> dict[str, str]:
        """Return the texts of all entries, by name."""
        return dict(self._entries(place))

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        """Set the text of an entry; with `nx` only if it does not exist. Return whether it was written."""
        if nx and entry in self._entries(place):
            return False
        self._used(place.session_id).namespaces.setdefault(place.name, {})[entry] = text
        return True

    async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
        """Set the texts of these entries, by name."""
        self._used(place.session_id).namespaces.setdefault(place.name, {}).update(texts)

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        """Change an entry by a function and return its result. No other call comes between."""
        before = self._entries(place).get(entry)
        after, result = change(before)
        if after is None and before is not None:
            del self._used(place.session_id).namespaces[place.name][entry]
        elif after is not None and after != before:
            self._used(place.session_id).namespaces.setdefault(place.name, {})[entry] = after
        return result

    async def log(self, place: Place, texts: Sequence[str], *, keep: int, closes: str = "") -> int | None:
        """Append records and drop all but the newest `keep`; return the index of the next record to come."""
        log = self._used(place.session_id).logs.setdefault(place.name, _Log())
        if log.closed_by:
            return None
        log.records.extend(texts)
        log.next_index += len(texts)
        log.closed_by = closes
        while len(log.records) > keep:
            log.records.popleft()
        for news in self._news.get(place, ()):
            news.set()
        return log.next_index

    async def log_state(self, place: Place) -> LogState:
        """Return the state of a log."""
        log = self._log(place)
        return LogState() if log is None else LogState(log.next_index, log.closed_by)

    async def reopen(self, session_id: str, closed_by: str) -> None:
        """Open the logs of a session again that were closed for that reason."""
        session = self._sessions.get(session_id)
        for log in () if session is None else session.logs.values():
            if log.closed_by == closed_by:
                log.closed_by = ""

    async def follow(self, starts: Mapping[Place, int], limit: int, seconds: float) -> dict[Place, list[Record]]:
        """Return the next records of logs as soon as there are any, or none after that time."""
        await checkpoint()  # the reader of a long log must not hold the event loop
        found = self._next_records(starts, limit)
        if found or seconds <= 0:
            return found
        news = anyio.Event()
        for place in starts:
            self._news.setdefault(place, set()).add(news)
        try:
            with anyio.move_on_after(seconds):
                await news.wait()
        finally:
            for place in starts:
                self._news[place].discard(news)
                if not self._news[place]:
                    del self._news[place]
        return self._next_records(starts, limit)

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        """Take or renew the lease of a session; return False if another holder has it."""
        now = self._clock.now()
        other, until = self._leases.get(session_id, ("", 0.0))
        if other not in ("", holder) and now < until and not takes_over:
            return False
        self._leases[session_id] = (holder, now + seconds)
        return True

    async def release(self, session_id: str, holder: str) -> None:
        """Give the lease up, if this holder has it."""
        if self._leases.get(session_id, ("", 0.0))[0] == holder:
            del self._leases[session_id]

    async def is_held(self, session_id: str) -> bool:
        """Return whether a holder has the lease of a session."""
        return self._clock.now() < self._leases.get(session_id, ("", -math.inf))[1]

    async def keep(self, session_id: str, seconds: float | None) -> None:
        """Have the session erased after so many seconds without use, unless it is pinned or held; None for never."""
        self._used(session_id).keep = seconds

    async def sweep(self, limit: int = SWEPT) -> list[str]:
        """Erase up to `limit` sessions whose time is over; return their ids."""
        now, wall = self._clock.now(), self._clock.wall()
        over = [
            session_id
            for session_id, session in self._sessions.items()
            if session.keep is not None
            and wall - session.used_at > session.keep
            and not self._summary(session_id).is_pinned
            and self._leases.get(session_id, ("", 0.0))[1] <= now
            and session_id != CALLS
        ][:limit]
        for session_id in over:
            await self.delete(session_id)
        return over

    async def summaries(self) -> list[SessionSummary]:
        """Return all sessions, the one written last first."""
        found = [self._summary(session_id) for session_id in self._sessions]
        return sorted(found, key=lambda one: one.used_at, reverse=True)

    async def delete(self, session_id: str) -> bool:
        """Erase a session; return whether it existed."""
        self._leases.pop(session_id, None)
        session = self._sessions.pop(session_id, None)
        return session is not None

    # --- for the session that has this store to itself

    def namespaces(self, session_id: str) -> dict[str, dict[str, str]]:
        """Return the texts of all entries of a session, by namespace."""
        session = self._sessions.get(session_id)
        return {} if session is None else {name: dict(entries) for name, entries in session.namespaces.items()}

    def fill(self, session_id: str, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        """Set the entries that a session lacks."""
        own = self._used(session_id).namespaces
        for name, entries in namespaces.items():
            own[name] = {**entries, **own.get(name, {})}

    def close_log(self, place: Place, closed_by: str) -> None:
        """Close a log, for that reason, and add nothing to it."""
        self._used(place.session_id).logs.setdefault(place.name, _Log()).closed_by = closed_by

    def _summary(self, session_id: str) -> SessionSummary:
        entries = self._entries(Place(session_id, METADATA))
        return SessionSummary.of(session_id, entries, self._sessions[session_id].used_at)

    def _entries(self, place: Place) -> dict[str, str]:
        session = self._sessions.get(place.session_id)
        return {} if session is None else session.namespaces.get(place.name, {})

    def _next_records(self, starts: Mapping[Place, int], limit: int) -> dict[Place, list[Record]]:
        found: dict[Place, list[Record]] = {}
        for place, start in starts.items():
            log = self._log(place)
            if log is not None and log.next_index > start:
                oldest = log.next_index - len(log.records)
                first = max(start, oldest)
                texts = islice(log.records, first - oldest, first - oldest + limit)
                found[place] = [Record(index, text) for index, text in enumerate(texts, first)]
        return {place: records for place, records in found.items() if records}

    def _log(self, place: Place) -> _Log | None:
        session = self._sessions.get(place.session_id)
        return None if session is None else session.logs.get(place.name)

    def _used(self, session_id: str) -> _Session:
        session = self._sessions.setdefault(session_id, _Session(0.0))
        session.used_at = self._clock.wall()
        return session
