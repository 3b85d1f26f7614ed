"""Sessions whose memory is in SQLite and Redis: other processes, killed ones, and a Redis that restarts in a call."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from kit.memory import session_with, started
from kit.servers.redis_server import RedisServer
from kit.store_roles import RolePlayer
from kit.store_writer import opened
from vivavoce.agents import MemoryOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.memory import RedisStore
from vivavoce.agents.states import CloseReason
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.core.clock import LoopClock

PROCESS = Path(__file__).parents[2] / "kit" / "memory_process.py"
PATIENT = 60.0
"""Seconds for a call to the store where none may fail."""
Where = tuple[str, str]


async def test_a_helper_process_shares_the_data_of_a_call_and_ends_it(where: Where, players: list[RolePlayer]) -> None:
    store, clock = opened(*where), LoopClock()
    session = session_with(MemoryOptions(store=store, timeout=PATIENT), clock=clock)
    await started(session, clock=clock)
    await session.memory.data.set("question", 21)
    assert await players[0].play("help_call", *where) == [True]
    report = await session.wait_closed()
    assert (report.reason, report.is_clean) == (CloseReason.USER_INITIATED.value, True)
    assert await session.memory.agent_data("desk").get("answer") == 42
    await store.aclose()


@contextmanager
def process(where: Where) -> Iterator[subprocess.Popen[str]]:
    """Run a process that has a call, and kill it at the end at the latest: one that is left fails the whole run."""
    with subprocess.Popen([sys.executable, str(PROCESS), *where], stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


async def test_another_process_resumes_a_killed_call_with_its_memory(where: Where) -> None:
    with process(where) as caller:
        assert caller.stdout is not None
        snapshot = json.loads(await anyio.to_thread.run_sync(caller.stdout.readline))
    store, clock = opened(*where), LoopClock()
    session = session_with(MemoryOptions(store=store, timeout=PATIENT), id="later", clock=clock)
    await started(session, resume_from=snapshot, clock=clock)
    assert session.memory.id == "call"
    assert await session.memory.data.get("order.size") == 2
    assert session.memory.private.get("visits") == 3
    assert "namespaces" not in snapshot["extensions"]["memory"]
    await session.close()
    assert [one.id for one in await store.sessions()] == ["call"]
    await store.aclose()


async def test_a_redis_that_is_away_during_speech_holds_up_no_word_of_it_and_loses_nothing(
    own_server: RedisServer,
) -> None:
    """That speech has no gap meanwhile is shown in virtual time; see `test_outage`."""
    store, clock = RedisStore(own_server.url), LoopClock()
    session = session_with(MemoryOptions(store=store, timeout=PATIENT), clock=clock)
    errors: list[ErrorOccurred] = []
    session.on("error", errors.append)
    room = await started(session, clock=clock)
    assert isinstance(room.sink, VirtualSink)
    await session.memory.data.set("order", 1)
    speech = session.say("one two three four five six seven eight nine ten")
    with anyio.fail_after(PATIENT):
        while not room.sink.frames():  # noqa: ASYNC110 - the sink has no event
            await anyio.sleep(0.01)
        await anyio.to_thread.run_sync(own_server.stop)
        await speech  # to its end without the store
    assert (speech.outcome, speech.heard_text) == ("completed", "one two three four five six seven eight nine ten")
    await anyio.to_thread.run_sync(own_server.start)
    assert await session.memory.data.get("order") == 1
    report = await session.close()
    assert (report.is_clean, report.lost_writes) == (True, 0)
    transcript = await session.memory.open_stream("agent_transcript")
    said = [item.value async for item in transcript.read(follow=False) if not item.is_control]
    await store.aclose()
    assert len(errors) <= 1
    assert len(said) == 1
    assert "ten" in json.dumps(said)
