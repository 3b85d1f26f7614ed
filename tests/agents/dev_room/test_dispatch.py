"""Agent dispatch: the choice of a worker, the content of its job, and the end of a job."""

from __future__ import annotations

import asyncio
import logging

import anyio
import jwt
import pytest
from aiohttp import WSServerHandshakeError
from google.protobuf import json_format
from livekit import api
from livekit.api import VideoGrants
from livekit.protocol import agent, models, rtc
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.signal_client import Clients, StartServer

LIMIT = 60.0
QUIET = 0.15
"""Seconds for which a worker without an offer is watched; a job takes 1 ms."""


def named(*names: str) -> RoomConfiguration:
    return RoomConfiguration(agents=[RoomAgentDispatch(agent_name=name, metadata=f"for {name}") for name in names])


async def test_the_first_caller_brings_the_job_to_the_unnamed_worker(server: RoomEndpoint, clients: Clients) -> None:
    worker = await clients.work(server)
    assert worker.id.startswith("AW_")
    await clients.join(server, "ann")

    job = await worker.offer()

    assert job.id.startswith("AJ_")
    assert (job.type, job.room.name, job.agent_name) == (agent.JT_ROOM, "r", "")
    await clients.join(server, "ben")
    await worker.answer(job, available=True)
    assignment = (await worker.next("assignment")).assignment
    assert assignment.job.id == job.id
    assert not assignment.url
    assert not await worker.is_asked(QUIET)  # the second caller brings no second job


async def test_the_assignment_lets_an_agent_in(server: RoomEndpoint, clients: Clients) -> None:
    worker = await clients.work(server)
    ann = await clients.join(server, "ann")
    await ann.next("join")
    assignment = await worker.take_job()

    claims = jwt.decode(assignment.token, server.api_secret, algorithms=["HS256"])
    assert claims["sub"] == f"agent-{assignment.job.id}"
    assert claims["kind"] == "agent"
    assert claims["video"]["room"] == "r"
    assert claims["video"]["roomJoin"]
    assert claims["attributes"] == {"lk.agent_name": ""}
    async with clients.http.ws_connect(
        f"{server.url}/rtc/v1", headers={"Authorization": f"Bearer {assignment.token}"}, params={"join_request": ""}
    ):
        joined = (await ann.next("update")).update.participants[0]
        assert joined.kind == models.ParticipantInfo.AGENT
        assert joined.identity == claims["sub"]


async def test_the_worker_chooses_the_agents_identity(server: RoomEndpoint, clients: Clients) -> None:
    worker = await clients.work(server)
    await clients.join(server, "ann")
    assignment = await worker.take_job("host")
    assert jwt.decode(assignment.token, server.api_secret, algorithms=["HS256"])["sub"] == "host"


async def test_a_refusal_goes_to_the_next_worker_by_load(server: RoomEndpoint, clients: Clients) -> None:
    busy, idle = await clients.work(server), await clients.work(server)
    await busy.update(load=0.8)
    await idle.update(load=0.1)
    await busy.settle()
    await idle.settle()
    await clients.join(server, "ann")

    job = await idle.offer()
    await idle.answer(job, available=False)

    assert (await busy.offer()).id == job.id


async def test_a_worker_that_goes_while_asked_passes_the_job_on(server: RoomEndpoint, clients: Clients) -> None:
    first, second = await clients.work(server), await clients.work(server)
    await second.update(load=0.5)
    await second.settle()
    await clients.join(server, "ann")
    job = await first.offer()
    await first.ws.close()
    assert (await second.offer()).id == job.id


async def test_a_refusal_for_good_ends_the_job(server: RoomEndpoint, clients: Clients) -> None:
    first, second = await clients.work(server), await clients.work(server)
    await second.update(load=0.5)
    await second.settle()
    await clients.join(server, "ann")
    await first.answer(await first.offer(), available=False, terminate=True)
    assert not await second.is_asked(QUIET)


async def test_a_silent_worker_loses_the_call_and_nobody_else_is_asked(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(availability_timeout=0.1)
    silent, other = await clients.work(server), await clients.work(server)
    await other.update(load=0.5)
    await other.settle()
    await clients.join(server, "ann")
    job = await silent.offer()
    assert not await other.is_asked(0.3)
    await silent.answer(job, available=True)
    assert not await silent.is_asked(QUIET)


async def test_full_workers_are_not_asked(server: RoomEndpoint, clients: Clients) -> None:
    full, free = await clients.work(server), await clients.work(server)
    await full.update(load=0.0, full=True)
    await free.update(load=0.9)
    await full.settle()
    await free.settle()
    await clients.join(server, "ann")
    await free.offer()


async def test_a_token_names_its_agents_and_unnamed_workers_are_not_asked(
    server: RoomEndpoint, clients: Clients
) -> None:
    unnamed, host = await clients.work(server), await clients.work(server, agent_name="host")
    await clients.join(server, "ann", config=named("host"))
    job = await host.offer()
    assert (job.agent_name, job.metadata) == ("host", "for host")
    assert not await unnamed.is_asked(QUIET)


async def test_named_workers_are_not_asked_unless_named(server: RoomEndpoint, clients: Clients) -> None:
    host = await clients.work(server, agent_name="host")
    await clients.join(server, "ann")
    assert not await host.is_asked(QUIET)


async def test_a_worker_that_comes_late_is_not_asked(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    await ann.next("join")
    worker = await clients.work(server)
    assert not await worker.is_asked(QUIET)


async def test_a_room_that_waits_goes_to_the_worker_that_registers_where_the_server_keeps_it(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(keeps_waiting_rooms=True)
    for identity, room, config in (("ann", "r", None), ("ben", "hosted", named("host"))):
        caller = await clients.join(server, identity, room=room, config=config)
        await caller.next("join")

    worker = await clients.work(server, settles=False)
    assert (await worker.take_job()).job.room.name == "r"
    host = await clients.work(server, agent_name="host", settles=False)
    assert (await host.take_job()).job.room.name == "hosted"

    later = await clients.work(server)
    assert not await later.is_asked(QUIET)  # each waiting room gets one agent


async def test_a_waiting_room_that_every_worker_refused_is_offered_to_the_next_one(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(keeps_waiting_rooms=True)
    full = await clients.work(server)
    await clients.join(server, "ann")
    await full.answer(await full.offer(), available=False)
    await full.update(load=0.5)  # the next one is asked first
    await full.settle()
    free = await clients.work(server, settles=False)
    assert (await free.offer()).room.name == "r"


async def test_a_room_that_has_ended_or_whose_dispatch_was_deleted_waits_no_longer(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(keeps_waiting_rooms=True, departure_timeout=0.05)
    ann = await clients.join(server, "ann")
    await ann.send(rtc.SignalRequest(leave=rtc.LeaveRequest()))
    async with api.LiveKitAPI(server.url, server.api_key, server.api_secret) as lkapi:
        wanted = api.CreateAgentDispatchRequest(agent_name="", room="other", metadata="m")
        created = await lkapi.agent_dispatch.create_dispatch(wanted)
        await lkapi.agent_dispatch.delete_dispatch(created.id, "other")
        async with asyncio.timeout(LIMIT):
            while any(room.name == "r" for room in (await lkapi.room.list_rooms(api.ListRoomsRequest())).rooms):  # noqa: ASYNC110 - the server tells nobody outside
                await anyio.sleep(0.01)
    worker = await clients.work(server)
    assert not await worker.is_asked(QUIET)


async def test_the_end_of_a_room_disconnects_its_agent_and_tells_the_worker_nothing(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(departure_timeout=0.1)
    worker = await clients.work(server)
    ann = await clients.join(server, "ann")
    job = (await worker.take_job()).job
    grants = VideoGrants(room_join=True, room="r", agent=True)
    host = await clients.join(server, f"agent-{job.id}", agent=True, grants=grants)
    await ann.send(rtc.SignalRequest(leave=rtc.LeaveRequest()))
    assert (await host.next("leave")).leave.reason == models.ROOM_CLOSED
    assert not await worker.is_asked(QUIET)


async def test_what_became_of_a_job_is_listed_whichever_connection_tells_it(
    server: RoomEndpoint, clients: Clients
) -> None:
    worker = await clients.work(server, agent_name="host")
    await clients.join(server, "ann", config=named("host"))
    job = (await worker.take_job()).job
    await worker.ws.close()
    again = await clients.work(server, agent_name="host")
    await again.send(agent.WorkerMessage(migrate_job=agent.MigrateJobRequest(job_ids=[job.id])))
    async with api.LiveKitAPI(server.url, server.api_key, server.api_secret) as lkapi:
        for status, error in ((agent.JS_RUNNING, ""), (agent.JS_FAILED, "no menu")):
            update = agent.UpdateJobStatus(job_id=job.id, status=status, error=error)
            await again.send(agent.WorkerMessage(update_job=update))
            await again.settle()
            (dispatch,) = await lkapi.agent_dispatch.list_dispatch("r")
            (listed,) = dispatch.state.jobs
            assert (listed.id, listed.state.status, listed.state.error) == (job.id, status, error)
    assert listed.state.ended_at >= listed.state.started_at > 0


async def test_the_server_api_dispatches_and_lists(server: RoomEndpoint, clients: Clients) -> None:
    host = await clients.work(server, agent_name="host")
    async with api.LiveKitAPI(server.url, server.api_key, server.api_secret) as lkapi:
        wanted = api.CreateAgentDispatchRequest(agent_name="host", room="r", metadata="m")
        created = await lkapi.agent_dispatch.create_dispatch(wanted)
        assignment = await host.take_job()
        listed = await lkapi.agent_dispatch.list_dispatch("r")
    assert (assignment.job.metadata, assignment.job.dispatch_id) == ("m", created.id)
    assert [(d.id, [job.id for job in d.state.jobs]) for d in listed] == [(created.id, [assignment.job.id])]


async def test_after_a_restart_the_returning_agent_is_not_doubled(
    start_server: StartServer, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = await start_server(restart_wait=LIMIT)
    worker = await clients.work(server)
    before = agent.MigrateJobRequest(job_ids=["AJ_of_before"])
    await worker.send(agent.WorkerMessage(migrate_job=before))
    await worker.settle()
    await clients.join(server, "ann")
    agent_grants = VideoGrants(room_join=True, room="r", agent=True)
    await clients.join(server, "agent-AJ_of_before", agent=True, grants=agent_grants)
    async with asyncio.timeout(LIMIT):
        while "came back, none dispatched" not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await anyio.sleep(0.01)
    await worker.settle()  # no offer comes before this answer


async def test_after_a_restart_a_room_whose_agent_stays_away_gets_another(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(restart_wait=0.1)
    worker = await clients.work(server)
    refused = await clients.join(server, "ann", request=rtc.JoinRequest(reconnect=True, participant_sid="PA_old"))
    await refused.next("leave")
    await clients.join(server, "ann")
    assert (await worker.offer()).room.name == "r"


async def test_a_worker_may_speak_json(server: RoomEndpoint, clients: Clients) -> None:
    token = api.AccessToken(server.api_key, server.api_secret).with_grants(VideoGrants(agent=True)).to_jwt()
    async with clients.http.ws_connect(f"{server.url}/agent", headers={"Authorization": f"Bearer {token}"}) as ws:
        await ws.send_str('{"register": {"agentName": "j"}}')
        reply = json_format.Parse(await ws.receive_str(timeout=LIMIT), agent.ServerMessage())
    assert reply.register.worker_id.startswith("AW_")


async def test_a_worker_needs_the_agent_grant(server: RoomEndpoint, clients: Clients) -> None:
    with pytest.raises(WSServerHandshakeError) as refused:
        await clients.work(server, grants=VideoGrants(room_list=True))
    assert refused.value.status == 401


async def test_a_worker_of_another_job_type_is_told_so(server: RoomEndpoint, clients: Clients) -> None:
    with pytest.raises(AssertionError, match="JT_ROOM only"):
        await clients.work(server, job_type=agent.JT_PUBLISHER)


async def test_malformed_worker_messages_harm_nobody(server: RoomEndpoint, clients: Clients) -> None:
    worker = await clients.work(server)
    await worker.ws.send_bytes(b"\xff\xff\xff")
    await worker.settle()
