"""InProcessStore: session state in this process, for sessions without another store; it ends with the process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from vivavoce.agents.memory.stores.store import (
    METADATA,
    Change,
    Place,
    Record,
    SessionStore,
    SessionSummary,
    decoded,
    is_pinned,
)
from vivavoce.pipelines.core.clock import Clock, LoopClock

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Log:
    records: deque[str] = field(default_factory=deque)
    next_index: int = 0
    news: set[anyio.Event] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Session:
    used_at: float
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    logs: dict[str, _Log] = field(default_factory=dict)
    keep: float | None = None


class InProcessStore(SessionStore):
    """Keeps sessions in memory. Use it from one event loop.

    Args:
        clock: Time of leases, and of sessions that are erased when they are idle.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = LoopClock() if clock is None else clock
        self._sessions: dict[str, _Session] = {}
        self._leases: dict[str, tuple[str, float]] = {}

    async def read(self, place: Place, entry: str) -> str | None:
        """Return the text of an entry; None: there is none."""
        return self._entries(place).get(entry)

    async def read_all(self, place: Place) -> dict[str, str]:
        """Return the texts of all entries, by name."""
        return dict(self._entries(place))

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        """Set the text of an entry; with `nx` only if there is none. Return whether it was written."""
        if nx and entry in self._entries(place):
            return False
        self._used(place.session_id).namespaces.setdefault(place.name, {})[entry] = text
        return True

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        """Change an entry by a function and return its result. No other call comes between."""
        before = self._entries(place).get(entry)
        after, result = change(before)
        if after is None and before is not None:
            del self._used(place.session_id).namespaces[place.name][entry]
        elif after is not None and after != before:
            self._used(place.session_id).namespaces.setdefault(place.name, {})[entry] = after
        return result

    async def log(self, place: Place, texts: Sequence[str], *, keep: int) -> int:
        """Append records and drop all but the newest `keep`; return the index of the next record to come."""
        log = self._used(place.session_id).logs.setdefault(place.name, _Log())
        log.records.extend(texts)
        log.next_index += len(texts)
        while len(log.records) > keep:
            log.records.popleft()
        for news in log.news:
            news.set()
        return log.next_index

    async def records(self, place: Place, start: int, limit: int) -> list[Record]:
        """Return up to `limit` records from index `start` on, or from the oldest one that is left."""
        log = self._log(place)
        if log is None:
            return []
        oldest = log.next_index - len(log.records)
        first = max(start, oldest)
        last = min(first + limit, log.next_index)
        return [Record(index, log.records[index - oldest]) for index in range(first, last)]

    async def wait(self, place: Place, start: int, seconds: float) -> None:
        """Return when there is a record with index `start` or higher, or after that time."""
        log = self._used(place.session_id).logs.setdefault(place.name, _Log())
        news = anyio.Event()
        log.news.add(news)
        try:
            if log.next_index <= start:
                with anyio.move_on_after(seconds):
                    await news.wait()
        finally:
            log.news.discard(news)

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
        """Have the session erased once it is idle for so long, unless it is pinned or held; None: never."""
        self._used(session_id).keep = seconds

    async def sweep(self) -> list[str]:
        """Erase the sessions whose time is over; return their ids."""
        now, wall = self._clock.now(), self._clock.wall()
        over = [
            session_id
            for session_id, session in self._sessions.items()
            if session.keep is not None
            and wall - session.used_at > session.keep
            and not is_pinned(session.namespaces.get(METADATA, {}))
            and self._leases.get(session_id, ("", 0.0))[1] <= now
        ]
        for session_id in over:
            await self.delete(session_id)
        return over

    async def summaries(self) -> list[SessionSummary]:
        """Return all sessions, those written last first."""
        found = [
            SessionSummary(
                id=session_id, metadata=decoded(session.namespaces.get(METADATA, {})), used_at=session.used_at
            )
            for session_id, session in self._sessions.items()
        ]
        return sorted(found, key=lambda one: one.used_at, reverse=True)

    async def delete(self, session_id: str) -> bool:
        """Erase a session; return whether there was one."""
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

    def _entries(self, place: Place) -> dict[str, str]:
        session = self._sessions.get(place.session_id)
        return {} if session is None else session.namespaces.get(place.name, {})

    def _log(self, place: Place) -> _Log | None:
        session = self._sessions.get(place.session_id)
        return None if session is None else session.logs.get(place.name)

    def _used(self, session_id: str) -> _Session:
        session = self._sessions.setdefault(session_id, _Session(0.0))
        session.used_at = self._clock.wall()
        return session
