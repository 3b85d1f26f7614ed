"""A job's access to its server: the server API, tokens for participants of its room, and a token that is too old."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable

import anyio
import pytest
from livekit.api import AccessToken, ListParticipantsRequest, VideoGrants
from livekit.protocol import agent as wire
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

from kit.e2e.peer_process import PeerProcess
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.working import Working
from kit.limits import LIMIT
from kit.servers.agent_server import AgentServer
from vivavoce.agents.job import JobContext
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import WorkerError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


Connect = Callable[..., Awaitable[PeerProcess]]


@pytest.mark.real_server
async def test_a_job_invites_a_second_participant_and_finds_it_by_the_server_api(
    room_server: RoomEndpoint, connect: Connect
) -> None:
    tokens: asyncio.Queue[str] = asyncio.Queue()
    in_callback: asyncio.Queue[set[str]] = asyncio.Queue()
    contexts: list[JobContext] = []

    async def identities(ctx: JobContext) -> set[str]:
        found = await ctx.api.room.list_participants(ListParticipantsRequest(room=ctx.job.room))
        return {participant.identity for participant in found.participants}

    async def entrypoint(ctx: JobContext) -> None:
        async def at_the_end() -> None:
            in_callback.put_nowait(await identities(ctx))

        contexts.append(ctx)
        await ctx.connect()
        ctx.add_shutdown_callback(at_the_end)
        token = ctx.participant_token(
            "bob", name="Bob", attributes={"desk": "2"}, grants=VideoGrants(can_publish=False), ttl=60.0
        )
        tokens.put_nowait(token)
        bob = await ctx.wait_for_participant("bob")
        assert (bob.name, dict(bob.attributes)) == ("Bob", {"desk": "2"})
        assert not bob.permissions.can_publish
        assert await identities(ctx) >= {"ann", "bob"}
        ctx.shutdown("all there")

    options = WorkerOptions(
        url=room_server.url,
        api_key=room_server.api_key,
        api_secret=room_server.api_secret,
        executor=TaskExecution(),
    )
    config = RoomConfiguration(agents=[RoomAgentDispatch(agent_name="host")])
    async with Working(Worker(entrypoint, agent_name="host", options=options)) as working:
        await connect(room_server, "ann", config=config)
        with anyio.fail_after(LIMIT):
            token = await tokens.get()
        async with PeerProcess() as bob:
            await bob.call("connect", url=room_server.url, token=token)
            with anyio.fail_after(LIMIT):
                assert await in_callback.get() >= {"ann", "bob"}
        await working.worker.aclose()

    [ctx] = contexts
    assert ctx.reason == "all there"
    with pytest.raises(WorkerError, match="closed with its job"):
        _ = ctx.api


@pytest.mark.both_servers
async def test_a_job_whose_token_has_expired_fails_and_says_so(room_server: RoomEndpoint) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        await ctx.connect()

    access = AccessToken(room_server.api_key, room_server.api_secret).with_identity("agent").with_kind("agent")
    grants = VideoGrants(room_join=True, room="room-of-AJ_1", agent=True)
    expired = access.with_grants(grants).with_ttl(datetime.timedelta(hours=-1)).to_jwt()
    async with AgentServer() as server:
        options = WorkerOptions(
            url=server.url, api_key=server.api_key, api_secret=server.api_secret, executor=TaskExecution()
        )
        async with Working(Worker(entrypoint, options=options)):
            await server.offer("AJ_1")
            await server.assign("AJ_1", url=room_server.url, token=expired)
            report = await server.ended("AJ_1")

    assert report.status == wire.JS_FAILED
    assert report.error.startswith(f"RoomError: could not join room 'room-of-AJ_1' at {room_server.url}: ")
    assert "expired" in report.error
    assert expired not in report.error
