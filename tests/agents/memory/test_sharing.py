"""Sessions whose memory is in SQLite and Redis: other processes, killed ones, and a Redis that restarts in a call."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import anyio

from kit.memory import session_with, started
from kit.servers.redis_server import RedisServer
from kit.store_roles import RolePlayer
from kit.store_writer import opened
from vivavoce.agents import MemoryOptions, RedisStore
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.states import CloseReason
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.core.clock import LoopClock

PROCESS = Path(__file__).parents[2] / "kit" / "memory_process.py"
Where = tuple[str, str]


async def test_a_helper_process_shares_the_data_of_a_call_and_ends_it(where: Where, players: list[RolePlayer]) -> None:
    store, clock = opened(*where), LoopClock()
    session = session_with(MemoryOptions(store=store), clock=clock)
    await started(session, clock=clock)
    await session.memory.data.set("question", 21)
    assert await players[0].play("help_call", *where) == [True]
    report = await session.wait_closed()
    assert (report.reason, report.is_clean) == (CloseReason.USER_INITIATED.value, True)
    assert await session.memory.agent_data("desk").get("answer") == 42
    await store.aclose()


def process(where: Where) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(PROCESS), *where], stdout=subprocess.PIPE, text=True)


async def test_another_process_resumes_a_killed_call_with_its_memory(where: Where) -> None:
    caller = process(where)
    assert caller.stdout is not None
    snapshot = json.loads(await anyio.to_thread.run_sync(caller.stdout.readline))
    caller.kill()
    await anyio.to_thread.run_sync(caller.communicate)
    store, clock = opened(*where), LoopClock()
    session = session_with(MemoryOptions(store=store), id="later", clock=clock)
    await started(session, resume_from=snapshot, clock=clock)
    assert session.memory.id == "call"
    assert await session.memory.data.get("order.size") == 2
    assert session.memory.private.get("visits") == 3
    assert "namespaces" not in snapshot["memory"]
    await session.close()
    assert [one.id for one in await store.sessions()] == ["call"]
    await store.aclose()


class Pulse:
    """Notes how late the process is, some dozens of times a second, on the loop and in a thread.

    Code that blocks the loop makes the loop alone late; a process that gets no processor is late in both.
    """

    def __init__(self) -> None:
        self._on_loop: list[tuple[float, float]] = []
        self._in_thread: list[tuple[float, float]] = []
        self._has_ended = threading.Event()

    async def run(self) -> None:
        """Beat until cancelled."""
        thread = threading.Thread(target=self._beat, args=(asyncio.get_running_loop(),))
        thread.start()
        try:
            while True:
                due = anyio.current_time() + 0.02
                await anyio.sleep(0.02)
                self._on_loop.append((due, anyio.current_time()))
        finally:
            self._has_ended.set()
            thread.join()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._has_ended.is_set():
            due = loop.time() + 0.02
            self._has_ended.wait(0.02)
            self._in_thread.append((due, loop.time()))

    def lateness(self, begin: float, end: float) -> float:
        """Return for how many seconds of that time neither the loop nor the thread came to what was due."""
        return sum(
            max(0.0, min(came, other_came, end) - max(due, other_due, begin))
            for due, came in self._on_loop
            if due < end and came > begin
            for other_due, other_came in self._in_thread
        )


async def test_redis_restarts_during_speech_without_a_gap(own_server: RedisServer) -> None:
    store, clock, pulse = RedisStore(own_server.url), LoopClock(), Pulse()
    session = session_with(MemoryOptions(store=store, timeout=10.0), clock=clock)
    errors: list[ErrorOccurred] = []
    session.on("error", errors.append)
    room = await started(session, clock=clock)
    await session.memory.data.set("order", 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pulse.run)
        speech = session.say("one two three four five six seven eight nine ten")
        await anyio.sleep(0.3)
        await anyio.to_thread.run_sync(own_server.stop)
        await anyio.sleep(0.5)
        await anyio.to_thread.run_sync(own_server.start)
        await speech
        tasks.cancel_scope.cancel()
    assert await session.memory.data.get("order") == 1
    report = await session.close()
    assert (report.is_clean, report.lost_writes) == (True, 0)
    transcript = await session.memory.open_stream("agent_transcript")
    said = [item.value async for item in transcript.read(follow=False) if not item.is_control]
    await store.aclose()
    assert isinstance(room.sink, VirtualSink)
    frames = room.sink.frames()
    gaps = [(frame.at + frame.frame.duration, later.at) for frame, later in zip(frames, frames[1:], strict=False)]
    # The store was away for longer, and so are its limits. A loop that gets no processor makes gaps too.
    assert max(end - begin - pulse.lateness(begin, end) for begin, end in gaps) < 0.25
    assert len(frames) * frames[0].frame.duration > 1.5
    assert len(errors) <= 1
    assert len(said) == 1
    assert "ten" in json.dumps(said)
