"""Jobs for participants and for publishers, by a real LiveKit server; the development room has jobs for rooms only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

from kit.e2e.peer_process import PeerProcess
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.working import Working
from kit.limits import LIMIT
from vivavoce.agents.job import JobContext
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


Connect = Callable[..., Awaitable[PeerProcess]]


def _worker(server: RoomEndpoint, jobs: asyncio.Queue[tuple[str, str]], **options: object) -> Worker:
    async def entrypoint(ctx: JobContext) -> None:
        participant = await ctx.wait_for_participant()
        assert ctx.job.participant_identity == participant.identity
        jobs.put_nowait((ctx.job.type, participant.identity))

    account = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
    given = WorkerOptions(executor=TaskExecution(), **account, **options)  # type: ignore[arg-type]
    return Worker(entrypoint, agent_name="host", options=given)


async def test_a_worker_for_participants_gets_a_job_for_each_participant_that_joins(
    livekit_room: RoomEndpoint, connect: Connect
) -> None:
    jobs: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    config = RoomConfiguration(agents=[RoomAgentDispatch(agent_name="host")])

    async with Working(_worker(livekit_room, jobs, job_type="participant")):
        await connect(livekit_room, "ann", config=config)
        with anyio.fail_after(LIMIT):
            assert await jobs.get() == ("participant", "ann")
        await connect(livekit_room, "bob")
        with anyio.fail_after(LIMIT):
            assert await jobs.get() == ("participant", "bob")


async def test_a_worker_for_publishers_gets_a_job_when_a_participant_publishes(
    livekit_room: RoomEndpoint, connect: Connect
) -> None:
    jobs: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    config = RoomConfiguration(agents=[RoomAgentDispatch(agent_name="host")])

    async with Working(_worker(livekit_room, jobs, job_type="publisher")) as working:
        await connect(livekit_room, "ann", config=config)
        bob = await connect(livekit_room, "bob")
        await bob.call("publish_tone", hertz=440.0)
        with anyio.fail_after(LIMIT):
            assert await jobs.get() == ("publisher", "bob")

        status = working.worker.status
        assert status is not None
        assert [job.participant_identity for job in status.active_jobs] == ["bob"]
