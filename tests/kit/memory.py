"""Sessions with a memory: the smallest session that runs, and stores that fail or hang by script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio

from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions
from vivavoce.agents.budget import BudgetOptions
from vivavoce.agents.memory import InProcessStore, StoreUnavailable, StoreValueError
from vivavoce.agents.memory.stores.store import Change, LogState, Place, Record
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import Clock

T = TypeVar("T")


def session_with(
    memory: MemoryOptions | None = None,
    *,
    budget: BudgetOptions | None = None,
    id: str = "call",
    agent: Agent | None = None,
    clock: Clock | None = None,
) -> AgentSession[Any]:
    """Return a session, by default in virtual time; its agent answers every turn with "Fine."."""
    agent = agent or Agent("Be brief.", id="desk")
    pipeline = SessionHarness(agent, ScriptedLLM(default="Fine.")).pipeline
    options = SessionOptions(clock=clock or VirtualClock(), memory=memory, budget=budget)
    return AgentSession(agent, pipeline, options=options, id=id)


async def started(
    session: AgentSession[Any], *, resume_from: Mapping[str, Any] | None = None, clock: Clock | None = None
) -> LocalTransport:
    """Start a session in a room of its own, and return the room."""
    room = LocalTransport(clock or VirtualClock())
    await session.start(room, resume_from=resume_from)
    return room


class HandOver:
    """A job whose new code waits for the conversation of the old one."""

    publishes_turns = False
    has_conversation = True

    def __init__(self) -> None:
        self._given = anyio.Event()

    def session_begins(self, session: Any) -> None:
        return None

    def keeper(self, room: str) -> None:
        return None

    def give(self, conversation: dict[str, Any]) -> None:
        self._conversation = conversation
        self._given.set()

    async def take_over(self, check: Callable[[Any], object]) -> dict[str, Any]:
        await self._given.wait()
        return self._conversation


class ScriptedStore(InProcessStore):
    """A store that a test can make fail, or hang."""

    def __init__(self) -> None:
        super().__init__(clock=VirtualClock())
        self.is_down = False
        self.hangs = False
        self.lateness = 0.0
        """Seconds of each write."""
        self.is_full = False
        """Whether it takes neither values nor records; it keeps leases still, and can be read."""
        self.refused = ""
        """Text that no record of a log may hold; empty: any may."""
        self.calls = 0
        self.written: list[str] = []
        """The names of the namespaces and logs that were written to, in this order."""

    async def _reach(self, *, writes: bool = False) -> None:
        self.calls += 1
        if self.hangs:
            await anyio.sleep_forever()
        if writes and self.lateness:
            await anyio.sleep(self.lateness)
        if self.is_down:
            raise StoreUnavailable("scripted: the store is down")
        if writes and self.is_full:
            raise StoreUnavailable("scripted: the store is full")

    async def _write(self, name: str) -> None:
        await self._reach(writes=True)
        self.written.append(name)

    async def read(self, place: Place, entry: str) -> str | None:
        await self._reach()
        return await super().read(place, entry)

    async def read_all(self, place: Place) -> dict[str, str]:
        await self._reach()
        return await super().read_all(place)

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        await self._write(place.name)
        return await super().write(place, entry, text, nx=nx)

    async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
        await self._write(place.name)
        await super().write_many(place, texts)

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        await self._write(place.name)
        return await super().change(place, entry, change)

    async def log(self, place: Place, texts: Sequence[str], *, keep: int, closes: str = "") -> int | None:
        await self._write(place.name)
        if self.refused and any(self.refused in text for text in texts):
            raise StoreValueError("scripted: the store refuses a text")
        return await super().log(place, texts, keep=keep, closes=closes)

    async def log_state(self, place: Place) -> LogState:
        await self._reach()
        return await super().log_state(place)

    async def follow(self, starts: Mapping[Place, int], limit: int, seconds: float) -> dict[Place, list[Record]]:
        await self._reach()
        return await super().follow(starts, limit, seconds)

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        await self._reach()
        return await super().hold(session_id, holder, seconds, takes_over=takes_over)

    async def release(self, session_id: str, holder: str) -> None:
        await self._reach()
        await super().release(session_id, holder)

    async def keep(self, session_id: str, seconds: float | None) -> None:
        await self._write("keep")
        await super().keep(session_id, seconds)
