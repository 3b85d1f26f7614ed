"""Streams between processes: a writer and its followers, and a store that is lost while one follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from kit.memory import session_with, started
from kit.servers.redis_server import RedisServer
from kit.store_roles import RolePlayer
from kit.store_writer import opened
from vivavoce.agents import AgentSession, MemoryOptions, RedisStore, SessionMemory, StoreUnavailable
from vivavoce.pipelines.core.clock import LoopClock

pytestmark = pytest.mark.timeout(120)

COUNT = 300
PATIENT = 60.0
"""Seconds for a call to the store where none may fail."""
Where = tuple[str, str]


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


@pytest.mark.parametrize("fault", ["stopped", "frozen"])
async def test_a_follower_of_a_redis_that_is_lost_is_told(own_server: RedisServer, fault: str) -> None:
    store, clock = RedisStore(own_server.url), LoopClock()
    session = session_with(MemoryOptions(store=store, timeout=PATIENT), clock=clock)
    await started(session, clock=clock)
    lost: list[str] = []

    async def follow(reader: Any) -> None:
        with pytest.raises(StoreUnavailable):
            async for _ in reader:
                pass
        lost.append(fault)

    async with (
        SessionMemory.attach(store, "call", timeout=PATIENT) as memory,
        SessionMemory.attach(store, "call", timeout=4.0) as hasty,
    ):
        numbers = await memory.open_stream("numbers", tags=["numbers"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, (await hasty.open_stream("numbers")).read())
            tasks.start_soon(follow, hasty.subscribe(["numbers"]))
            await anyio.sleep(0.3)
            assert lost == []
            if fault == "stopped":
                await anyio.to_thread.run_sync(own_server.stop)
            else:
                tasks.start_soon(anyio.to_thread.run_sync, lambda: _freeze(own_server, lost))
        if fault == "stopped":
            own_server.start()
        assert await numbers.write(1) == 0
        assert [item.value async for item in numbers.read(follow=False)] == [1]
    await session.close()
    await store.aclose()


def _freeze(server: RedisServer, lost: list[str]) -> None:
    with server.frozen():
        while len(lost) < 2:  # the test has its own limit
            anyio.from_thread.run(anyio.sleep, 0.01)
