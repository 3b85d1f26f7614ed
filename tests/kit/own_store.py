"""OwnStore: a session store as an application would write it, by docs/stores.md alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import time  # noqa: TID251 - an application's store knows no other clock
from typing import TypeVar

import anyio

from vivavoce.agents.memory import SessionStore, SessionSummary
from vivavoce.agents.memory.stores import Change, LogState, Place, Record

T = TypeVar("T")

WEEK = 604_800.0


@dataclass
class Log:
    records: list[Record] = field(default_factory=list)
    state: LogState = field(default_factory=LogState)


@dataclass
class Session:
    used_at: float = 0.0
    idle: float | None = WEEK
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)


class OwnStore(SessionStore):
    """Keeps sessions in dicts."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._leases: dict[str, tuple[str, float]] = {}

    def _used(self, session_id: str) -> Session:
        session = self._sessions.setdefault(session_id, Session())
        session.used_at = time()
        return session

    def _log(self, place: Place) -> Log:
        return self._sessions.get(place.session_id, Session()).logs.get(place.name, Log())

    async def read(self, place: Place, entry: str) -> str | None:
        return (await self.read_all(place)).get(entry)

    async def read_all(self, place: Place) -> dict[str, str]:
        return dict(self._sessions.get(place.session_id, Session()).entries.get(place.name, {}))

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        entries = self._used(place.session_id).entries.setdefault(place.name, {})
        if nx and entry in entries:
            return False
        entries[entry] = text
        return True

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        after, result = change(await self.read(place, entry))
        entries = self._used(place.session_id).entries.setdefault(place.name, {})
        if after is None:
            entries.pop(entry, None)
        else:
            entries[entry] = after
        return result

    async def log(self, place: Place, texts: Sequence[str], *, keep: int, closes: str = "") -> int | None:
        log = self._used(place.session_id).logs.setdefault(place.name, Log())
        if log.state.closed_by:
            return None
        first = log.state.next_index
        log.records += [Record(index, text) for index, text in enumerate(texts, first)]
        del log.records[:-keep]
        log.state = LogState(first + len(texts), closes)
        return log.state.next_index

    async def log_state(self, place: Place) -> LogState:
        return self._log(place).state

    async def reopen(self, session_id: str, closed_by: str) -> None:
        for log in self._sessions.get(session_id, Session()).logs.values():
            if log.state.closed_by == closed_by:
                log.state = LogState(log.state.next_index)

    async def follow(self, starts: Mapping[Place, int], limit: int, seconds: float) -> dict[Place, list[Record]]:
        until = time() + seconds
        while True:
            found = {
                place: [record for record in self._log(place).records if record.index >= start][:limit]
                for place, start in starts.items()
            }
            left = until - time()
            if any(found.values()) or left <= 0:
                return {place: records for place, records in found.items() if records}
            await anyio.sleep(min(left, 0.01))

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        if not takes_over and await self.is_held(session_id) and self._leases[session_id][0] != holder:
            return False
        self._leases[session_id] = holder, time() + seconds
        return True

    async def release(self, session_id: str, holder: str) -> None:
        if self._leases.get(session_id, ("", 0.0))[0] == holder:
            del self._leases[session_id]

    async def is_held(self, session_id: str) -> bool:
        return time() < self._leases.get(session_id, ("", -math.inf))[1]

    async def keep(self, session_id: str, seconds: float | None) -> None:
        self._used(session_id).idle = seconds

    async def sweep(self, limit: int = 20) -> list[str]:
        over: list[str] = []
        for one in await self.summaries():
            idle = self._sessions[one.id].idle
            is_idle = idle is not None and time() - one.used_at > idle
            if is_idle and not one.is_pinned and not await self.is_held(one.id) and one.id != "vivavoce.calls":
                over.append(one.id)
        for session_id in over[:limit]:
            await self.delete(session_id)
        return over[:limit]

    async def summaries(self) -> list[SessionSummary]:
        found = [
            SessionSummary.of(name, await self.read_all(Place(name, "metadata")), session.used_at)
            for name, session in self._sessions.items()
        ]
        return sorted(found, key=lambda one: one.used_at, reverse=True)

    async def delete(self, session_id: str) -> bool:
        self._leases.pop(session_id, None)
        return self._sessions.pop(session_id, None) is not None
