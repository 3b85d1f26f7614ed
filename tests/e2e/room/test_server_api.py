"""The server API as `livekit-api` calls it, seen by LiveKit clients: through the embedded room and a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import ClientSession
from livekit import api

from kit.e2e.peer_process import PeerProcess
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.signal_client import WorkerClient

pytestmark = [pytest.mark.both_servers, pytest.mark.e2e, pytest.mark.timeout(120)]

Connect = Callable[..., Awaitable[PeerProcess]]


@pytest.fixture
async def lkapi(room_server: RoomEndpoint) -> AsyncIterator[api.LiveKitAPI]:
    async with api.LiveKitAPI(room_server.url, room_server.api_key, room_server.api_secret) as client:
        yield client


async def test_a_room_is_made_listed_changed_and_deleted(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    made = await lkapi.room.create_room(api.CreateRoomRequest(name=room_name, metadata="first"))
    listed = (await lkapi.room.list_rooms(api.ListRoomsRequest(names=[room_name]))).rooms
    assert [(room.sid, room.name, room.metadata) for room in listed] == [(made.sid, room_name, "first")]

    ann = await connect(room_server, "ann")
    changed = await lkapi.room.update_room_metadata(api.UpdateRoomMetadataRequest(room=room_name, metadata="second"))
    assert changed.metadata == "second"
    await ann.event("room_metadata", metadata="second")

    await lkapi.room.delete_room(api.DeleteRoomRequest(room=room_name))
    assert (await ann.event("disconnected"))["reason"] == 5  # ROOM_DELETED


async def test_participants_are_listed_looked_up_changed_and_removed(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    ann = await connect(room_server, "ann")
    ben = await connect(room_server, "ben")
    listed = (await lkapi.room.list_participants(api.ListParticipantsRequest(room=room_name))).participants
    assert sorted(p.identity for p in listed) == ["ann", "ben"]

    update = api.UpdateParticipantRequest(
        room=room_name, identity="ann", name="Ann", metadata="m", attributes={"seat": "4"}
    )
    changed = await lkapi.room.update_participant(update)
    assert (changed.name, changed.metadata, dict(changed.attributes)) == ("Ann", "m", {"seat": "4"})
    for peer in (ann, ben):
        await peer.event("attributes", identity="ann", changed={"seat": "4"})
        await peer.event("metadata", identity="ann", metadata="m")
        await peer.event("name", identity="ann", name="Ann")
    found = await lkapi.room.get_participant(api.RoomParticipantIdentity(room=room_name, identity="ann"))
    assert (found.sid, found.name, dict(found.attributes)) == (changed.sid, "Ann", {"seat": "4"})

    await lkapi.room.remove_participant(api.RoomParticipantIdentity(room=room_name, identity="ann"))
    assert (await ann.event("disconnected"))["reason"] == 4  # PARTICIPANT_REMOVED
    await ben.event("participant_disconnected", identity="ann")
    with pytest.raises(api.TwirpError) as refused:
        await lkapi.room.get_participant(api.RoomParticipantIdentity(room=room_name, identity="ann"))
    assert (refused.value.code, refused.value.status) == ("not_found", 404)


async def test_a_track_is_muted_for_everyone_and_not_unmuted_by_others(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    ann = await connect(room_server, "ann")
    ben = await connect(room_server, "ben")
    sid = await ann.call("publish_tone", hertz=440.0)
    await ben.event("track_subscribed", identity="ann")
    mute = api.MuteRoomTrackRequest(room=room_name, identity="ann", track_sid=sid, muted=True)
    muted = await lkapi.room.mute_published_track(mute)
    assert muted.track.sid == sid
    await ben.event("track_muted", identity="ann")
    await ben.call("hears_silence", identity="ann")

    mute.muted = False
    with pytest.raises(api.TwirpError) as refused:
        await lkapi.room.mute_published_track(mute)
    assert (refused.value.code, refused.value.status) == ("failed_precondition", 412)
    await ann.call("mute", on=False)
    await ben.event("track_unmuted", identity="ann")
    await ben.call("hears", identity="ann", hertz=440.0)


async def test_a_right_taken_away_ends_what_it_allowed(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    ann = await connect(room_server, "ann")
    ben = await connect(room_server, "ben")
    await ann.call("publish_tone", hertz=440.0)
    await ben.event("track_subscribed", identity="ann")
    permission = api.ParticipantPermission(can_subscribe=True, can_publish=False, can_publish_data=False)
    changed = await lkapi.room.update_participant(
        api.UpdateParticipantRequest(room=room_name, identity="ann", permission=permission)
    )
    assert not changed.permission.can_publish
    await ben.event("track_unpublished", identity="ann")
    await ann.call("send_data", text="may I?", reliable=True)
    await ben.call("send_data", text="are you there?", reliable=True)
    await ann.event("data", payload="are you there?")
    assert not [event for event in ben.events if event["event"] == "data"]


async def test_a_subscription_ends_and_begins_as_the_api_says(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    ann = await connect(room_server, "ann")
    ben = await connect(room_server, "ben")
    sid = await ann.call("publish_tone", hertz=440.0)
    await ben.event("track_subscribed", identity="ann")
    update = api.UpdateSubscriptionsRequest(room=room_name, identity="ben", track_sids=[sid], subscribe=False)
    await lkapi.room.update_subscriptions(update)  # clients have no event for it: sound shows it
    await ben.call("hears_silence", identity="ann")
    update.subscribe = True
    await lkapi.room.update_subscriptions(update)
    await ben.event("track_subscribed", identity="ann", sid=sid)
    await ben.call("hears", identity="ann", hertz=440.0)


@pytest.mark.parametrize("kind", ["RELIABLE", "LOSSY"])
async def test_data_of_the_api_reaches_those_it_names(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, connect: Connect, room_name: str, kind: str
) -> None:
    ann = await connect(room_server, "ann")
    ben = await connect(room_server, "ben")
    # A lossy message is not repeated: before a client's channel is open it has no receiver.
    for sender, receiver in ((ann, ben), (ben, ann)):
        await sender.call("send_data", text="open", reliable=True)
        await receiver.event("data", payload="open")
    send = api.SendDataRequest(room=room_name, data=b"for ben", kind=kind, topic="t", destination_identities=["ben"])
    await lkapi.room.send_data(send)
    await lkapi.room.send_data(api.SendDataRequest(room=room_name, data=b"for all", kind=kind))
    named = await ben.event("data", payload="for ben")
    assert (named["identity"], named["topic"], named["reliable"]) == ("", "t", kind == "RELIABLE")
    await asyncio.gather(ben.event("data", payload="for all"), ann.event("data", payload="for all"))
    assert not [event for event in ann.events if event.get("payload") == "for ben"]


async def test_a_dispatch_is_made_listed_and_deleted(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, room_name: str
) -> None:
    async with ClientSession() as http, WorkerClient(http, room_server, agent_name="host") as worker:
        made = await lkapi.agent_dispatch.create_dispatch(
            api.CreateAgentDispatchRequest(room=room_name, agent_name="host", metadata="table 4")
        )
        assignment = await worker.take_job()
        job = assignment.job
        assert (job.dispatch_id, job.agent_name, job.metadata) == (made.id, "host", "table 4")
        listed = [each for each in await lkapi.agent_dispatch.list_dispatch(room_name) if each.agent_name]
        assert [each.id for each in listed] == [made.id]
        found = await lkapi.agent_dispatch.get_dispatch(made.id, room_name)
        assert found is not None
        assert found.agent_name == "host"

        deleted = await lkapi.agent_dispatch.delete_dispatch(made.id, room_name)
        assert deleted.id == made.id
        assert (await worker.next("termination")).termination.job_id == job.id
        assert not [each for each in await lkapi.agent_dispatch.list_dispatch(room_name) if each.agent_name]


async def test_a_dispatch_without_an_agent_name_is_offered_to_a_worker_without_a_name(
    lkapi: api.LiveKitAPI, room_server: RoomEndpoint, room_name: str
) -> None:
    await lkapi.room.create_room(api.CreateRoomRequest(name=room_name))  # its own dispatch finds no worker, and is lost
    async with (
        ClientSession() as http,
        WorkerClient(http, room_server, agent_name="host") as host,
        WorkerClient(http, room_server) as nameless,
    ):
        made = await lkapi.agent_dispatch.create_dispatch(
            api.CreateAgentDispatchRequest(room=room_name, metadata="table 4", attributes={"heals": "AD_1"})
        )
        job = (await nameless.take_job()).job
        assert (job.dispatch_id, job.agent_name, job.metadata, dict(job.attributes)) == (
            made.id,
            "",
            "table 4",
            {"heals": "AD_1"},
        )
        assert not await host.is_asked(0.3)
        listed = await lkapi.agent_dispatch.list_dispatch(room_name)
        assert made.id in [each.id for each in listed if not each.agent_name]
