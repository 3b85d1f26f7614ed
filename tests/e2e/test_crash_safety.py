"""Calls survive the death of their processes: a worker is killed under a live call, for good too, on both servers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

from kit.e2e.command import running
from kit.e2e.crash_app import (
    environment,
    keeps,
    logged,
    logs,
    nothing_is_kept,
    owners,
    worker_of,
    write_app,
    write_desk,
)
from kit.e2e.dev_app import hears, seen
from kit.e2e.listener import RATE, Listener, listening
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import record
from kit.servers.redis_server import running_redis_server
from vivavoce.agents.memory import RedisStore, SessionMemory
from vivavoce.agents.memory.calls_in_store import WORDS_PLACE, CallsInStore
from vivavoce.agents.memory.stores.store import SessionSummary

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

GOES_ON_WITHIN = 60.0
"""Seconds from the kill to the agent's next words, on a machine that other test runs may load: a new worker may have to
be started.
"""
PROMISED = {"process": 10.0, "worker": 45.0}
"""Seconds for the same on a machine that has nothing else to do."""
BOOKED = "Booked friday at"
"""The day was said before the kill. The time is real audio, which may be misheard."""
PATIENCE = bytes(2 * RATE * 8)
"""Eight seconds of silence in which an answer begins; after it the caller says the line again."""


def _token(server: RoomEndpoint, room: str) -> str:
    agent = RoomAgentDispatch(agent_name=room, metadata="table 7", attributes={"tier": "gold"})
    return server.token("caller", room, config=RoomConfiguration(agents=[agent]))


async def _is_asked_for_the_time(caller: Listener, folder: Path) -> str:
    """Have a call up to its second question, and wait until it is kept; return its agent."""
    await hears(caller, "For which day?")
    await caller.room.local_participant.send_text("on friday", topic="lk.chat")
    await hears(caller, "At what time?")
    await keeps(folder, "At what time?")
    (agent,) = caller.agents
    return agent


async def _goes_on(caller: Listener, *, dead: str) -> float:
    """Wait until another agent speaks, alone; it knows what was said before. Return the seconds until its sound."""
    killed_at = time.monotonic()
    await hears(caller, "we were cut off", limit=GOES_ON_WITHIN)
    await caller.until(lambda: len(caller.agents) == 1 and caller.agents != [dead])
    (successor,) = caller.agents
    await caller.until(lambda: bool(caller.heard.get(successor)))
    took = caller.heard[successor][0] - killed_at
    print(f"the agent goes on {took:.2f} s after the kill")
    return took


async def _says_the_time(caller: Listener) -> None:
    lines = await record(["at seven"])
    async with anyio.create_task_group() as speaking:
        speaking.start_soon(caller.speak, (lines["at seven"] + PATIENCE) * 4)
        await hears(caller, BOOKED, limit=45.0)
        speaking.cancel_scope.cancel()


async def _types_the_time(caller: Listener) -> None:
    await caller.room.local_participant.send_text("at seven", topic="lk.chat")
    await hears(caller, BOOKED)


SPOKEN = pytest.mark.test_all("a recogniser hears the call that goes on, which a busy machine may garble")


@pytest.mark.parametrize(
    ("victim", "tells_the_time"),
    [
        pytest.param("process", _types_the_time, id="process"),
        pytest.param("process", _says_the_time, id="process, spoken", marks=SPOKEN),
        pytest.param("worker", _says_the_time, id="worker, spoken", marks=SPOKEN),
    ],
)
async def test_a_caller_whose_worker_or_whose_job_s_process_is_killed_hears_the_agent_go_on(
    room_server: RoomEndpoint,
    room_name: str,
    tmp_path: Path,
    victim: str,
    tells_the_time: Callable[[Listener], Awaitable[None]],
) -> None:
    write_app(tmp_path, room_name)
    with running(tmp_path, "start", "app.py", **environment(room_server, tmp_path)) as command:
        await seen(command, "registered as")
        async with listening(room_server.url, _token(room_server, room_name)) as caller:
            dead = await _is_asked_for_the_time(caller, tmp_path)
            worker = worker_of(command)
            (process,) = owners(tmp_path)
            assert process != worker

            os.kill(worker if victim == "worker" else process, signal.SIGKILL)
            if victim == "worker":
                await seen(command, "registered as", times=2)
            await _goes_on(caller, dead=dead)
            await tells_the_time(caller)
            await keeps(tmp_path, BOOKED)
        await nothing_is_kept(tmp_path)
        assert (worker_of(command) == worker) == (victim == "process")
        assert await anyio.to_thread.run_sync(command.end, signal.SIGTERM) == 0
    facts = "metadata table 7 {'tier': 'gold'}"
    assert (tmp_path / "log.txt").read_text().splitlines() == [facts, "enter", facts]
    assert ("the worker died by SIGKILL" in command.seen) == (victim == "worker")
    assert "Traceback" not in command.seen


@pytest.mark.parametrize(
    ("says", "runs", "kept", "answer"),
    [
        pytest.param("book a table", "book", ['"c1"'], "The output was: The call was broken off", id="in its tool"),
        pytest.param("when do you open", "asked", [], "We open at ten", id="before its answer"),
    ],
)
async def test_a_turn_whose_process_is_killed_is_answered_and_its_tool_has_run_once(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path, says: str, runs: str, kept: list[str], answer: str
) -> None:
    write_desk(tmp_path, room_name)
    with running(tmp_path, "start", "app.py", **environment(embedded_room, tmp_path)) as command:
        await seen(command, "registered as")
        async with listening(embedded_room.url, _token(embedded_room, room_name)) as caller:
            await hears(caller, "Hello!")
            await caller.room.local_participant.send_text(says, topic="lk.chat")
            await logs(tmp_path, runs)
            await keeps(tmp_path, says, *kept)
            (process,) = owners(tmp_path)
            os.kill(process, signal.SIGKILL)
            await hears(caller, answer, limit=GOES_ON_WITHIN)
            assert "cut off" not in str(caller.texts)
        await nothing_is_kept(tmp_path)
        assert logged(tmp_path) == [runs]
        assert await anyio.to_thread.run_sync(command.end, signal.SIGTERM) == 0


async def test_a_call_goes_on_with_its_past_though_the_start_of_its_next_job_fails_once(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    write_desk(tmp_path, room_name)
    (tmp_path / "fails").touch()
    with running(tmp_path, "start", "app.py", **environment(embedded_room, tmp_path)) as command:
        await seen(command, "registered as")
        async with listening(embedded_room.url, _token(embedded_room, room_name)) as caller:
            await hears(caller, "Hello!")
            await caller.room.local_participant.send_text("book a table", topic="lk.chat")
            await logs(tmp_path, "book")
            await keeps(tmp_path, '"c1"')
            (process,) = owners(tmp_path)
            os.kill(process, signal.SIGKILL)
            await hears(caller, "The output was: The call was broken off", limit=GOES_ON_WITHIN)
            await caller.until(lambda: len(caller.agents) == 1)
            assert "the database is away" in command.seen
        await nothing_is_kept(tmp_path)
        assert logged(tmp_path) == ["book"]
        assert await anyio.to_thread.run_sync(command.end, signal.SIGTERM) == 0
    assert command.seen.count("is dispatched again") == 2


async def test_a_call_whose_process_is_killed_while_its_only_worker_drains_goes_on_in_that_worker(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    write_desk(tmp_path, room_name, drain_timeout=100.0)
    with running(tmp_path, "start", "app.py", **environment(embedded_room, tmp_path)) as command:
        await seen(command, "registered as")
        async with listening(embedded_room.url, _token(embedded_room, room_name)) as caller:
            await hears(caller, "Hello!")
            await caller.room.local_participant.send_text("book a table", topic="lk.chat")
            await logs(tmp_path, "book")
            await keeps(tmp_path, '"c1"')
            (process,) = owners(tmp_path)
            command.process.send_signal(signal.SIGTERM)
            await seen(command, "draining: 1 job left")
            os.kill(process, signal.SIGKILL)
            await hears(caller, "The output was: The call was broken off", limit=GOES_ON_WITHIN)
            await caller.until(lambda: len(caller.agents) == 1)
        assert await anyio.to_thread.run_sync(command.process.wait) == 0
    assert logged(tmp_path) == ["book"]
    assert "is dispatched again" not in command.seen


@pytest.mark.test_all("its seconds are judged, and a busy machine needs more of them")
@pytest.mark.parametrize("victim", PROMISED)
async def test_the_agent_goes_on_within_10_seconds_of_its_process_s_death_and_45_of_its_worker_s(
    room_server: RoomEndpoint, room_name: str, tmp_path: Path, victim: str
) -> None:
    write_app(tmp_path, room_name)
    with running(tmp_path, "start", "app.py", **environment(room_server, tmp_path)) as command:
        await seen(command, "registered as")
        async with listening(room_server.url, _token(room_server, room_name)) as caller:
            dead = await _is_asked_for_the_time(caller, tmp_path)
            (process,) = owners(tmp_path)
            os.kill(worker_of(command) if victim == "worker" else process, signal.SIGKILL)
            assert await _goes_on(caller, dead=dead) < PROMISED[victim]
        await nothing_is_kept(tmp_path)
        assert await anyio.to_thread.run_sync(command.end, signal.SIGTERM) == 0


@pytest.mark.test_all("make test holds one call that survives a kill; this is another one, with another store")
async def test_a_second_worker_continues_the_call_of_a_killed_one_and_its_memory_from_redis(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    settings = environment(embedded_room, tmp_path)
    with running_redis_server() as redis:
        shared = f"RedisStore({redis.url!r})"
        write_app(tmp_path, room_name, store=shared, memory=f"MemoryOptions(store={shared})")
        with (
            running(tmp_path, "start", "app.py", **settings) as first,
            running(tmp_path, "start", "app.py", **settings) as second,
        ):
            await seen(first, "registered as")
            await seen(second, "registered as")
            async with listening(embedded_room.url, _token(embedded_room, room_name)) as caller:
                await hears(caller, "For which day?")
                await caller.room.local_participant.send_text("on friday", topic="lk.chat")
                await hears(caller, "At what time?")
                family = [first.family(), second.family()]
                process = await _process_that_keeps(redis.url, "At what time?")
                before = await _note_in_memory(redis.url, "booked.day", "friday")
                victim, other = (family[0], second) if process in family[0] else (family[1], first)
                (dead,) = caller.agents
                for pid in victim:
                    with suppress(ProcessLookupError):  # it has ended with its parent
                        os.kill(pid, signal.SIGKILL)
                await _goes_on(caller, dead=dead)
                await caller.room.local_participant.send_text("at seven", topic="lk.chat")
                await hears(caller, "Booked friday at seven")
            await _memory_goes_on(redis.url, before)
            assert await anyio.to_thread.run_sync(other.end, signal.SIGTERM) == 0


async def _note_in_memory(url: str, key: str, value: str) -> SessionSummary:
    """Set a value in the memory of the one call that there is, and return the call."""
    store = RedisStore(url)
    (call,) = await store.sessions()
    async with SessionMemory.attach(store, call.id) as memory:
        await memory.data.set(key, value)
    await store.aclose()
    return call


async def _memory_goes_on(url: str, before: SessionSummary) -> None:
    """Wait for the end of the call; both of its processes have had one memory."""
    store = RedisStore(url)
    (call,) = await store.sessions()
    assert (call.id, call.metadata) == (before.id, before.metadata)
    async with SessionMemory.attach(store, call.id) as memory:
        assert await memory.wait(timeout=20.0)
        assert await memory.data.get("booked") == {"day": "friday", "time": "19:00"}
        said = [message.content for message in await memory.get_chat_history()]
        first = said.index("At what time?")
        assert said[0].endswith("For which day?")
        assert any("Booked friday at seven" in text for text in said[first:])
    await store.aclose()


async def _process_that_keeps(url: str, words: str) -> int:
    """Wait until the conversation of the call is kept with these words; return the process that has the call."""
    store = RedisStore(url)
    with anyio.fail_after(20.0):
        while not any(words in text for text in (await store.read_all(WORDS_PLACE)).values()):  # noqa: ASYNC110 - Redis
            await anyio.sleep(0.02)
    (call,) = await CallsInStore(store).read()
    await store.aclose()
    return int(call.owner.split("/")[1])
