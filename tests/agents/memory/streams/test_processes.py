"""Streams between processes: a writer and its followers, and a store that is lost while one follows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kit.memory import session_with, started
from kit.servers.redis_server import RedisServer
from kit.store_roles import RolePlayer
from kit.store_writer import opened
from vivavoce.agents import AgentSession, MemoryOptions
from vivavoce.agents.memory import RedisStore, SessionMemory, StoreUnavailable
from vivavoce.pipelines.core.clock import LoopClock

pytestmark = pytest.mark.timeout(120)

COUNT = 300
PATIENT = 60.0
"""Seconds for a call to the store where none may fail."""
HASTY = 4.0
"""Seconds for a call to a store that answers nothing."""
Where = tuple[str, str]
OpenReader = Callable[[SessionMemory], Awaitable[AsyncIterator[object]]]


@pytest.fixture
async def session(where: Where) -> AsyncIterator[AgentSession[Any]]:
    """A running session in real time, whose memory is in the store."""
    store, clock = opened(*where), LoopClock()
    session = session_with(MemoryOptions(store=store, timeout=PATIENT), clock=clock)
    await started(session, clock=clock)
    yield session
    await session.close()
    await store.aclose()


async def test_followers_in_two_processes_read_each_item_of_a_writer_in_a_third_once_and_in_one_order(
    where: Where, session: AgentSession[Any], players: list[RolePlayer]
) -> None:
    reader, writer = players
    told: list[Any] = []

    async def follow() -> None:
        told.extend(await reader.play("follow", *where, "numbers"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            tasks.start_soon(writer.play, "write_numbers", *where, COUNT)
            numbers = await session.memory.open_stream("numbers", tags=["numbers"])
            read = [item.value async for item in numbers.read()]
            await session.close()
    assert sorted(read) == list(range(COUNT))
    assert told == [["numbers", value] for value in read]
    assert [item.value async for item in numbers.read(COUNT - 2)] == read[-2:]


async def test_a_helper_process_follows_the_transcript_of_a_call(
    where: Where, session: AgentSession[Any], players: list[RolePlayer]
) -> None:
    told: list[Any] = []

    async def follow() -> None:
        told.extend(await players[0].play("follow", *where, "transcript"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await session.say("Hello there.")
            session.input.text("a table")
            while len(session.turns) < 2 or session.current_speech is not None:  # noqa: ASYNC110 - either order
                await anyio.sleep(0.05)
            await session.close()
    assert told == [
        ["agent_transcript", "Hello there."],
        ["user_transcript", "a table"],
        ["agent_transcript", "Fine."],
    ]


class Follower:
    """Follows a stream until it is told that the store is lost."""

    def __init__(self, open_reader: OpenReader) -> None:
        self.reads = anyio.Event()
        self.is_told = anyio.Event()
        self._open_reader = open_reader

    async def run(self, store: RedisStore, limit: float, is_lost: anyio.Event) -> None:
        """Follow; begin again where a call was late only because the machine is busy."""
        while not self.is_told.is_set():
            try:
                async with SessionMemory.attach(store, "call", timeout=limit) as memory:
                    async for _ in await self._open_reader(memory):
                        self.reads.set()
                raise AssertionError("the session goes on, and so does its stream")
            except StoreUnavailable:
                if is_lost.is_set():
                    self.is_told.set()


async def _read(memory: SessionMemory) -> AsyncIterator[object]:
    return (await memory.open_stream("numbers")).read()


async def _subscribe(memory: SessionMemory) -> AsyncIterator[object]:
    return memory.subscribe(["numbers"])


@asynccontextmanager
async def _away(server: RedisServer, fault: str) -> AsyncIterator[None]:
    if fault == "frozen":
        with server.frozen():
            yield
    else:
        await anyio.to_thread.run_sync(server.stop)
        yield
        await anyio.to_thread.run_sync(server.start)


@pytest.mark.parametrize(("fault", "limit"), [("stopped", PATIENT), ("frozen", HASTY)])
async def test_a_follower_of_a_redis_that_is_lost_is_told(own_server: RedisServer, fault: str, limit: float) -> None:
    store, clock = RedisStore(own_server.url, timeout=PATIENT), LoopClock()
    session = session_with(MemoryOptions(store=store, timeout=PATIENT), clock=clock)
    await started(session, clock=clock)
    followers, is_lost = [Follower(_read), Follower(_subscribe)], anyio.Event()

    async with SessionMemory.attach(store, "call", timeout=PATIENT) as memory:
        numbers = await memory.open_stream("numbers", tags=["numbers"])
        assert await numbers.write(1) == 0
        async with anyio.create_task_group() as tasks:
            for follower in followers:
                tasks.start_soon(follower.run, store, limit, is_lost)
            for follower in followers:
                await follower.reads.wait()
            is_lost.set()
            async with _away(own_server, fault):
                for follower in followers:
                    await follower.is_told.wait()
        assert await numbers.write(2) == 1
        assert [item.value async for item in numbers.read(follow=False)] == [1, 2]
    await session.close()
    await store.aclose()
