"""A worker whose jobs run in processes: a killed process in a call, the death of the worker."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from livekit.protocol.agent import JobStatus

from kit.e2e import talking_app
from kit.e2e.command import running
from kit.e2e.dev_app import seen
from kit.e2e.listener import Listener, listening
from kit.e2e.many_calls import LIMIT, host_token, meets_agent, process_of_agent, worker_of
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.worker_process import WorkerProcess
from kit.e2e.worker_tap import WorkerTap
from kit.e2e.working import Working
from kit.job_pool import descendants_of, runs
from kit.servers.agent_server import AgentServer
from vivavoce.agents import ProcessExecution

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

JOBS = 4


@asynccontextmanager
async def one_of_two_calls_is_killed(server: RoomEndpoint, room_name: str) -> AsyncIterator[tuple[Listener, int]]:
    """Kill the process of one of two calls; yield the caller of the other one, and the place of the kill in its audio.

    Afterwards the lost process is replaced.
    """
    execution = ProcessExecution(processes=2)
    async with WorkerTap(server.url) as tap, AsyncExitStack() as stack:
        worker = worker_of(tap.url, server, talking_app.talks_on, executor=execution)
        await stack.enter_async_context(Working(worker))
        one, two = [
            await stack.enter_async_context(listening(server.url, host_token(server, f"{room_name}-{number}")))
            for number in (1, 2)
        ]
        dead, other = await process_of_agent(one), await process_of_agent(two)
        assert dead != other, "two calls, two processes"

        killed_at = len(two.is_loud[two.agents[0]])
        os.kill(dead, signal.SIGKILL)

        report = await tap.report(JobStatus.JS_FAILED)
        assert report.error.startswith("the job's process was ended by SIGKILL")
        yield two, killed_at
        third = await stack.enter_async_context(listening(server.url, host_token(server, f"{room_name}-3")))
        assert await process_of_agent(third) not in (dead, other), "the lost process was replaced"


async def test_the_kill_of_a_process_ends_its_call_with_the_cause_and_the_other_call_goes_on(
    room_server: RoomEndpoint, room_name: str
) -> None:
    async with one_of_two_calls_is_killed(room_server, room_name) as (other, _):
        heard = len(other.loud_at)
        await other.until(lambda: len(other.loud_at) > heard + 25)


@pytest.mark.test_all("the silence of a real call is judged by its seconds")
async def test_the_other_call_has_no_gap_when_a_process_is_killed(room_server: RoomEndpoint, room_name: str) -> None:
    async with one_of_two_calls_is_killed(room_server, room_name) as (other, killed_at):
        (agent,) = other.agents
        audio = other.is_loud[agent]
        await other.until(lambda: len(audio) > killed_at + 150)  # three seconds
        gap = other.longest_quiet(agent, killed_at - 25)
        print(f"the other call's longest silence around the kill is {gap:.2f} s")
        assert gap < 1.0


async def test_sigterm_under_load_lets_all_calls_finish_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from kit.e2e.talking_app import talks_to_nobody as entrypoint\n")
    async with AgentServer() as server:
        account = {
            "LIVEKIT_URL": server.url,
            "LIVEKIT_API_KEY": server.api_key,
            "LIVEKIT_API_SECRET": server.api_secret,
            "XDG_STATE_HOME": str(tmp_path),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        with running(tmp_path, "start", "app.py", **account) as command:
            await seen(command, "registered as")
            for number in range(JOBS):
                await server.start(f"AJ_{number}")
            processes = descendants_of(command.process.pid)

            command.process.send_signal(signal.SIGTERM)

            with anyio.fail_after(40):
                ends = [await server.ended(f"AJ_{number}", limit=None) for number in range(JOBS)]
            assert [end.error for end in ends] == [""] * JOBS
            assert await anyio.to_thread.run_sync(command.process.wait) == 0
            assert len(processes) >= 3, "the worker, the one that forks, and the forked ones"
            assert not runs(processes)


async def test_the_processes_of_a_killed_worker_leave_their_rooms_and_end(
    room_server: RoomEndpoint, room_name: str
) -> None:
    server = room_server
    async with WorkerProcess(server.url, server.api_key, server.api_secret) as worker:
        await worker.line("registered")
        async with listening(server.url, host_token(server, room_name)) as caller:
            await worker.line("joined")
            await meets_agent(caller)
            processes = descendants_of(worker.process.pid)
            assert len(processes) >= 2, "the one that forks, and the forked ones"

            worker.process.kill()

            with anyio.fail_after(LIMIT):
                while runs(processes):  # noqa: ASYNC110 - they are not our children
                    await anyio.sleep(0.05)
            await caller.until(lambda: not caller.agents)
