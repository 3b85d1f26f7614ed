"""Many calls at once on one worker: they keep both cores busy, so that only `make test-all` runs them."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import anyio
import pytest
from livekit.protocol.agent import JobStatus

from kit.e2e import talking_app
from kit.e2e.listener import RATE, Listener, listening
from kit.e2e.many_calls import LIMIT, host_token, meets_agent, worker_of
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import record
from kit.e2e.worker_tap import WorkerTap
from kit.e2e.working import Working
from kit.servers.agent_server import AgentServer
from vivavoce.agents import ProcessExecution
from vivavoce.agents.cli.app_file import load_app

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("many calls keep both cores busy"),
]

BENCH = Path(__file__).parents[1] / "bench" / "calls" / "vivavoce_app.py"
AVAILABILITY_LIMIT = 0.1
"""Seconds for the usual answer to an offer; it takes some milliseconds on an idle machine."""
SCRIPTED_CALLS = 50
FULL_CALLS = 10


async def test_fifty_scripted_calls_at_once_all_succeed_and_offers_are_answered_meanwhile() -> None:
    async with AgentServer() as server:
        worker = worker_of(
            server.url, server, talking_app.talks_to_nobody, max_jobs=SCRIPTED_CALLS, executor=ProcessExecution()
        )
        async with Working(worker):
            waits: list[float] = []
            for number in range(SCRIPTED_CALLS):
                await server.start(f"AJ_{number}")
            for number in range(20):  # refused: the worker is full
                asked_at = time.monotonic()
                assert not (await server.offer(f"AJ_more_{number}")).available
                waits.append(time.monotonic() - asked_at)
                await anyio.sleep(0.1)
            with anyio.fail_after(60):
                ends = [await server.ended(f"AJ_{number}", limit=None) for number in range(SCRIPTED_CALLS)]

    print(f"offers under {SCRIPTED_CALLS} calls: median {median(waits) * 1000:.1f} ms, max {max(waits) * 1000:.1f} ms")
    assert [end.error for end in ends] == [""] * SCRIPTED_CALLS
    assert median(waits) < AVAILABILITY_LIMIT


async def test_ten_calls_with_full_audio_at_once_are_all_answered_by_one_worker(
    livekit_room: RoomEndpoint, room_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCH.parent))
    bench = load_app(BENCH).worker
    words = "a table for four on friday at seven please"
    pcm = (await record([words]))[words]
    async with WorkerTap(livekit_room.url) as tap, AsyncExitStack() as stack:
        # A server gives no job to a worker with a load of 1, which other test runs may cause on this machine.
        options = {"prewarm": bench.options.prewarm, "load": bench.options.load}
        worker = worker_of(tap.url, livekit_room, bench.entrypoint, **options)
        await stack.enter_async_context(Working(worker))
        async with AsyncExitStack() as calls, anyio.create_task_group() as tasks:
            for number in range(FULL_CALLS):
                token = host_token(livekit_room, f"{room_name}-{number}")
                caller = await calls.enter_async_context(listening(livekit_room.url, token))
                tasks.start_soon(_asks_and_hears, caller, pcm)
        with anyio.fail_after(LIMIT):
            while len(_ends(tap)) < FULL_CALLS:  # noqa: ASYNC110 - a server's messages
                await anyio.sleep(0.1)

    assert _ends(tap) == [JobStatus.JS_SUCCESS] * FULL_CALLS


async def _asks_and_hears(caller: Listener, pcm: bytes) -> None:
    await meets_agent(caller)
    await caller.speak(pcm)
    with anyio.fail_after(LIMIT):
        while len(caller.loud_at) < RATE // 320:  # noqa: ASYNC110 - a second of the answer
            await anyio.sleep(0.1)


def _ends(tap: WorkerTap) -> list[JobStatus]:
    over = (JobStatus.JS_SUCCESS, JobStatus.JS_FAILED)
    updates = [message.update_job for message in tap.messages if message.HasField("update_job")]
    return [update.status for update in updates if update.status in over]
