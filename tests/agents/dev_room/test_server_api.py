"""The server API, called with the real livekit-api client, and how long rooms live."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import WSServerHandshakeError
from livekit import api
from livekit.api import VideoGrants
from livekit.protocol import models, rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.signal_client import Clients, StartServer


@pytest.fixture
async def lkapi(server: RoomEndpoint) -> AsyncIterator[api.LiveKitAPI]:
    async with api.LiveKitAPI(server.url, server.api_key, server.api_secret) as client:
        yield client


async def rooms(endpoint: RoomEndpoint) -> list[str]:
    async with api.LiveKitAPI(endpoint.url, endpoint.api_key, endpoint.api_secret) as client:
        return [room.name for room in (await client.room.list_rooms(api.ListRoomsRequest())).rooms]


async def test_rooms_are_made_listed_and_deleted(lkapi: api.LiveKitAPI) -> None:
    made = await lkapi.room.create_room(api.CreateRoomRequest(name="r", metadata="m"))
    assert made.sid.startswith("RM_")
    listed = (await lkapi.room.list_rooms(api.ListRoomsRequest())).rooms
    assert [(room.sid, room.metadata) for room in listed] == [(made.sid, "m")]
    await lkapi.room.delete_room(api.DeleteRoomRequest(room="r"))
    assert not (await lkapi.room.list_rooms(api.ListRoomsRequest())).rooms


async def test_deleting_a_room_sends_everyone_away(
    lkapi: api.LiveKitAPI, server: RoomEndpoint, clients: Clients
) -> None:
    ann = await clients.join(server, "ann")
    await ann.next("join")
    await lkapi.room.delete_room(api.DeleteRoomRequest(room="r"))
    assert (await ann.next("leave")).leave.reason == models.ROOM_DELETED


async def test_participants_are_listed_and_removed(
    lkapi: api.LiveKitAPI, server: RoomEndpoint, clients: Clients
) -> None:
    ann = await clients.join(server, "ann")
    await ann.next("join")
    listed = (await lkapi.room.list_participants(api.ListParticipantsRequest(room="r"))).participants
    assert [p.identity for p in listed] == ["ann"]
    await lkapi.room.remove_participant(api.RoomParticipantIdentity(room="r", identity="ann"))
    assert (await ann.next("leave")).leave.reason == models.PARTICIPANT_REMOVED


async def test_what_is_not_there_is_not_found(lkapi: api.LiveKitAPI) -> None:
    with pytest.raises(api.TwirpError) as refused:
        await lkapi.room.delete_room(api.DeleteRoomRequest(room="none"))
    assert (refused.value.code, refused.value.status) == ("not_found", 404)


async def test_a_method_that_is_not_built_says_which_are(lkapi: api.LiveKitAPI) -> None:
    with pytest.raises(api.TwirpError, match="CreateDispatch") as refused:
        await lkapi.room.move_participant(
            api.MoveParticipantRequest(room="r", identity="ann", destination_room="elsewhere")
        )
    assert refused.value.code == "bad_route"


async def test_a_room_takes_no_more_than_it_was_made_for(
    lkapi: api.LiveKitAPI, server: RoomEndpoint, clients: Clients
) -> None:
    await lkapi.room.create_room(api.CreateRoomRequest(name="r", max_participants=1))
    await (await clients.join(server, "ann")).next("join")
    with pytest.raises(WSServerHandshakeError) as refused:
        await clients.join(server, "ben")
    assert refused.value.status == 503


async def test_texts_that_are_too_long_change_nothing(
    lkapi: api.LiveKitAPI, server: RoomEndpoint, clients: Clients
) -> None:
    await (await clients.join(server, "ann")).next("join")
    too_long = "x" * 65_537
    with pytest.raises(api.TwirpError, match="65536"):
        await lkapi.room.update_room_metadata(api.UpdateRoomMetadataRequest(room="r", metadata=too_long))
    with pytest.raises(api.TwirpError, match="65536"):
        await lkapi.room.update_participant(
            api.UpdateParticipantRequest(room="r", identity="ann", attributes={"a": too_long})
        )
    with pytest.raises(api.TwirpError, match="65536"):
        await lkapi.room.send_data(api.SendDataRequest(room="r", data=too_long.encode()))
    (listed,) = (await lkapi.room.list_rooms(api.ListRoomsRequest())).rooms
    assert listed.metadata == ""


async def test_a_wrong_secret_is_refused_with_a_reason(server: RoomEndpoint) -> None:
    async with api.LiveKitAPI(server.url, server.api_key, "another-secret-another-secret-another") as client:
        with pytest.raises(api.TwirpError, match="another API secret") as refused:
            await client.room.list_rooms(api.ListRoomsRequest())
    assert (refused.value.code, refused.value.status) == ("unauthenticated", 401)


async def test_each_call_needs_its_grant_and_json_is_answered_in_json(server: RoomEndpoint, clients: Clients) -> None:
    http = server.url.replace("ws://", "http://")
    token = server.token("ann", "r", grants=VideoGrants(room_list=True))
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{http}/twirp/livekit.RoomService"
    async with clients.http.post(f"{url}/ListRooms", json={}, headers=headers) as response:
        assert (response.status, await response.json()) == (200, {})
    async with clients.http.post(f"{url}/CreateRoom", json={"name": "r"}, headers=headers) as response:
        assert response.status == 403
        assert (await response.json())["code"] == "permission_denied"
    json_headers = {**headers, "Content-Type": "application/json"}
    async with clients.http.post(f"{url}/ListRooms", data=b"{", headers=json_headers) as response:
        assert (response.status, (await response.json())["code"]) == (400, "malformed")


async def test_a_room_outlives_its_last_caller_but_agents_do_not_hold_it(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(departure_timeout=3.0)
    ann = await clients.join(server, "ann")
    helper = await clients.join(server, "helper", agent=True)
    await ann.send(rtc.SignalRequest(leave=rtc.LeaveRequest()))
    await ann.closed()
    assert await rooms(server) == ["r"]
    assert (await helper.next("leave")).leave.reason == models.ROOM_CLOSED
    assert await rooms(server) == []


async def test_a_caller_who_comes_back_in_time_finds_the_same_room(start_server: StartServer, clients: Clients) -> None:
    server = await start_server(departure_timeout=3.0)
    ann = await clients.join(server, "ann")
    sid = (await ann.next("join")).join.room.sid
    await ann.send(rtc.SignalRequest(leave=rtc.LeaveRequest()))
    await ann.closed()
    again = await clients.join(server, "ann")
    assert (await again.next("join")).join.room.sid == sid
    with pytest.raises(TimeoutError):
        await again.next("leave", limit=3.5)


async def test_a_room_nobody_joins_ends(start_server: StartServer) -> None:
    server = await start_server(empty_timeout=0.1)
    async with api.LiveKitAPI(server.url, server.api_key, server.api_secret) as client:
        await client.room.create_room(api.CreateRoomRequest(name="r"))
        while await rooms(server):
            continue
