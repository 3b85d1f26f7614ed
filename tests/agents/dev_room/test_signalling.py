"""The signalling endpoint: a client's first messages, refusals, and protection of clients from each other."""

from __future__ import annotations

import asyncio
import base64
import gzip

import pytest
from aiohttp import WSServerHandshakeError
from livekit.api import VideoGrants
from livekit.protocol import models, rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.signal_client import LIMIT, Clients, StartServer, join_parameter
from vivavoce.agents.dev_room import DEV_API_KEY, DEV_API_SECRET, RoomServer, RoomServerOptions

ANOTHER_SECRET = "another-secret-another-secret-another"


async def validate(clients: Clients, endpoint: RoomEndpoint, token: str, join: str | None = None) -> tuple[int, str]:
    params = {"access_token": token, "join_request": join_parameter(rtc.JoinRequest()) if join is None else join}
    url = endpoint.url.replace("ws://", "http://")
    async with clients.http.get(f"{url}/rtc/v1/validate", params=params) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        return response.status, await response.text()


async def test_the_join_response_holds_what_clients_choke_on(server: RoomEndpoint, clients: Clients) -> None:
    join = (await (await clients.join(server, "ann")).next("join")).join

    assert 0 < join.server_info.protocol <= 17  # 18 makes clients lose all data silently
    assert join.ping_interval > 0  # 0 makes the Rust client panic
    assert join.ping_timeout > join.ping_interval
    assert join.room.sid.startswith("RM_")
    assert join.room.name == "r"
    assert join.participant.sid.startswith("PA_")
    assert join.participant.identity == "ann"
    assert not join.subscriber_primary
    assert join.fast_publish
    assert [codec.mime for codec in join.enabled_publish_codecs] == ["audio/opus", "video/VP8"]


async def test_the_join_response_comes_first_and_names_the_others(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    await ann.next("join")
    ben = await clients.join(server, "ben")

    joined = (await ben.next("join")).join
    assert ben.seen == ["join"]
    assert [other.identity for other in joined.other_participants] == ["ann"]
    told = (await ann.next("update")).update.participants
    assert [(p.identity, p.state) for p in told] == [("ben", models.ParticipantInfo.JOINED)]


async def test_a_compressed_join_request_is_read(server: RoomEndpoint, clients: Clients) -> None:
    request = rtc.JoinRequest(participant_attributes={"colour": "red" * 1000})
    token = server.token("ann", "r")
    assert (await validate(clients, server, token, join_parameter(request, compress=True)))[0] == 200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"api_secret": ANOTHER_SECRET}, "signed with another API secret"),
        ({"ttl": -600.0}, "expired at 20"),
        ({"grants": VideoGrants(room="r")}, "lacks the grant roomJoin"),
    ],
)
async def test_validate_says_what_is_wrong_with_a_token(
    server: RoomEndpoint, clients: Clients, change: dict[str, object], said: str
) -> None:
    token = server.token("ann", "r", **change)  # type: ignore[arg-type]
    status, text = await validate(clients, server, token)
    assert status == 401
    assert said in text
    assert token not in text
    assert server.api_secret not in text


async def test_validate_says_when_the_key_is_another_ones(server: RoomEndpoint, clients: Clients) -> None:
    other = RoomEndpoint(url=server.url, api_key="APIcloud", api_secret=ANOTHER_SECRET, kind="embedded")
    status, text = await validate(clients, server, other.token("ann", "r"))
    assert status == 401
    assert "'APIcloud'" in text
    assert "'devkey'" in text


@pytest.mark.parametrize(("token", "said"), [("", "no access token"), ("garbage", "is not a JWT")])
async def test_validate_says_when_there_is_no_token(
    server: RoomEndpoint, clients: Clients, token: str, said: str
) -> None:
    status, text = await validate(clients, server, token)
    assert (status, said in text) == (401, True)


async def test_validate_says_success_to_a_good_token(server: RoomEndpoint, clients: Clients) -> None:
    assert await validate(clients, server, server.token("ann", "r")) == (200, "success")


async def test_a_refused_upgrade_has_the_same_text(server: RoomEndpoint, clients: Clients) -> None:
    with pytest.raises(WSServerHandshakeError) as refused:
        await clients.join(server, "ann", api_secret=ANOTHER_SECRET)
    assert refused.value.status == 401


async def test_the_old_door_is_not_there(server: RoomEndpoint, clients: Clients) -> None:
    with pytest.raises(WSServerHandshakeError) as refused:
        await clients.http.ws_connect(f"{server.url}/rtc", params={"access_token": server.token("ann", "r")})
    assert refused.value.status == 404


async def test_a_join_request_that_unpacks_without_end_is_refused(server: RoomEndpoint, clients: Clients) -> None:
    bomb = rtc.WrappedJoinRequest(
        compression=rtc.WrappedJoinRequest.GZIP, join_request=gzip.compress(bytes(20_000_000))
    )
    value = base64.urlsafe_b64encode(bomb.SerializeToString()).decode()
    status, text = await validate(clients, server, server.token("ann", "r"), value)
    assert status == 400
    assert "larger than" in text


@pytest.mark.parametrize("value", ["", "%%%", "AAAA", "CAES", "_____w"])
async def test_a_malformed_join_request_is_answered_without_a_trace(
    server: RoomEndpoint, clients: Clients, value: str
) -> None:
    status, text = await validate(clients, server, server.token("ann", "r"), value)
    assert status in (200, 400)
    assert "Traceback" not in text


async def test_malformed_messages_harm_nobody(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    ben = await clients.join(server, "ben")
    await ben.next("join")
    await ann.ws.send_bytes(b"\xff\xff\xff")
    await ann.send(rtc.SignalRequest(offer=rtc.SessionDescription(type="offer", sdp="v=0\r\nm=audio x", id=1)))
    await ann.send(rtc.SignalRequest(mute=rtc.MuteTrackRequest(sid="TR_none", muted=True)))
    await ann.send(rtc.SignalRequest(subscription=rtc.UpdateSubscription(track_sids=["TR_none"], subscribe=True)))

    assert (await ann.next("subscription_response")).subscription_response.track_sid == "TR_none"
    await ben.send(rtc.SignalRequest(ping_req=rtc.Ping(timestamp=7)))
    assert (await ben.next("pong_resp")).pong_resp.last_ping_timestamp == 7


async def test_a_message_too_large_ends_only_its_sender(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    ben = await clients.join(server, "ben")
    await ben.next("join")
    await ann.ws.send_bytes(bytes(1_000_000))
    await ann.closed()
    await ben.send(rtc.SignalRequest(ping=7))
    await ben.next("pong")


async def test_attributes_need_the_grant(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann", grants=VideoGrants(room_join=True, room="r"))
    change = rtc.UpdateParticipantMetadata(attributes={"a": "1"}, request_id=3)
    await ann.send(rtc.SignalRequest(update_metadata=change))
    answer = (await ann.next("request_response")).request_response
    assert (answer.request_id, answer.reason) == (3, rtc.RequestResponse.NOT_ALLOWED)
    assert "canUpdateOwnMetadata" in answer.message


async def test_attributes_are_told_to_everyone_and_versions_grow(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    before = (await ann.next("join")).join.participant.version
    change = rtc.UpdateParticipantMetadata(attributes={"a": "1", "b": "2"}, metadata="m", name="Ann", request_id=3)
    await ann.send(rtc.SignalRequest(update_metadata=change))
    told = (await ann.next("update")).update.participants[0]
    assert (dict(told.attributes), told.metadata, told.name) == ({"a": "1", "b": "2"}, "m", "Ann")
    assert told.version > before
    assert (await ann.next("request_response")).request_response.reason == rtc.RequestResponse.OK


async def test_a_participants_text_is_bounded(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    change = rtc.UpdateParticipantMetadata(attributes={"a": "x" * 100_000}, request_id=3)
    await ann.send(rtc.SignalRequest(update_metadata=change))
    assert (await ann.next("request_response")).request_response.reason == rtc.RequestResponse.LIMIT_EXCEEDED


async def test_a_track_of_another_kind_is_refused_with_a_reason(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    await ann.send(rtc.SignalRequest(add_track=rtc.AddTrackRequest(cid="c", type=models.DATA)))
    answer = (await ann.next("request_response")).request_response
    assert answer.reason == rtc.RequestResponse.UNSUPPORTED_TYPE
    assert "audio and video only" in answer.message


async def test_publishing_needs_the_grant(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann", grants=VideoGrants(room_join=True, room="r", can_publish=False))
    await ann.send(rtc.SignalRequest(add_track=rtc.AddTrackRequest(cid="c", source=models.MICROPHONE)))
    assert (await ann.next("request_response")).request_response.reason == rtc.RequestResponse.NOT_ALLOWED


async def test_a_published_track_is_told_to_everyone(server: RoomEndpoint, clients: Clients) -> None:
    ann, ben = await clients.join(server, "ann"), await clients.join(server, "ben")
    await ben.next("join")
    await ann.send(rtc.SignalRequest(add_track=rtc.AddTrackRequest(cid="c", name="mic", source=models.MICROPHONE)))
    published = (await ann.next("track_published")).track_published
    assert published.cid == "c"
    assert published.track.sid.startswith("TR_")
    assert [t.name for t in (await ben.next("update")).update.participants[0].tracks] == ["mic"]


async def test_an_unknown_sid_at_resume_is_sent_to_join_anew(server: RoomEndpoint, clients: Clients) -> None:
    request = rtc.JoinRequest(reconnect=True, participant_sid="PA_unknown")
    ann = await clients.join(server, "ann", request=request)
    leave = (await ann.next("leave")).leave
    assert (leave.reason, leave.action) == (models.STATE_MISMATCH, rtc.LeaveRequest.RECONNECT)
    await ann.closed()


async def test_the_second_of_one_identity_sends_the_first_away(server: RoomEndpoint, clients: Clients) -> None:
    first = await clients.join(server, "ann")
    await first.next("join")
    second = await clients.join(server, "ann")
    await second.next("join")
    assert (await first.next("leave")).leave.reason == models.DUPLICATE_IDENTITY
    await first.closed()


async def test_who_leaves_is_gone_at_once(server: RoomEndpoint, clients: Clients) -> None:
    ann, ben = await clients.join(server, "ann"), await clients.join(server, "ben")
    await ben.next("join")
    await ann.send(rtc.SignalRequest(leave=rtc.LeaveRequest(reason=models.CLIENT_INITIATED)))
    gone = (await ben.next("update")).update.participants[0]
    assert (gone.identity, gone.state) == ("ann", models.ParticipantInfo.DISCONNECTED)
    await ann.closed()


async def test_who_loses_the_websocket_is_kept_for_the_grace_time(start_server: StartServer, clients: Clients) -> None:
    server = await start_server(participant_grace=LIMIT)
    ann, ben = await clients.join(server, "ann"), await clients.join(server, "ben")
    await ben.next("join")
    await ann.ws.close()
    await ben.send(rtc.SignalRequest(ping_req=rtc.Ping(timestamp=7)))
    await ben.next("pong_resp")
    assert "update" not in ben.seen, "the server has seen the end of the websocket, and has sent no update"


async def test_who_loses_the_websocket_is_gone_after_the_grace_time(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(participant_grace=0.1)
    ann, ben = await clients.join(server, "ann"), await clients.join(server, "ben")
    await ben.next("join")
    await ann.ws.close()
    gone = (await ben.next("update")).update.participants[0]
    assert (gone.identity, gone.state) == ("ann", models.ParticipantInfo.DISCONNECTED)


async def test_who_brings_no_media_up_is_sent_away(start_server: StartServer, clients: Clients) -> None:
    server = await start_server(join_timeout=0.2)
    ann = await clients.join(server, "ann")
    assert (await ann.next("leave")).leave.reason == models.CONNECTION_TIMEOUT


async def test_a_hidden_participant_is_not_told_of(server: RoomEndpoint, clients: Clients) -> None:
    ann = await clients.join(server, "ann")
    await ann.next("join")
    await clients.join(server, "spy", grants=VideoGrants(room_join=True, room="r", hidden=True))
    ben = await clients.join(server, "ben")
    assert [p.identity for p in (await ben.next("join")).join.other_participants] == ["ann"]
    assert [p.identity for p in (await ann.next("update")).update.participants] == ["ben"]


async def test_full_rooms_and_servers_refuse_with_a_reason(start_server: StartServer, clients: Clients) -> None:
    server = await start_server(max_rooms=1, max_participants=1)
    await clients.join(server, "ann", "one")
    status, text = await validate(clients, server, server.token("ben", "one"))
    assert (status, text) == (503, "the room holds 1 participants already")
    status, text = await validate(clients, server, server.token("ben", "two"))
    assert (status, text) == (503, "the development room server holds 1 rooms already")
    assert (await validate(clients, server, server.token("ann", "one")))[0] == 200


async def test_a_client_that_never_reads_is_dropped_and_holds_nobody_up(
    start_server: StartServer, clients: Clients
) -> None:
    server = await start_server(participant_grace=0.1)
    talker = await clients.join(server, "talker")
    await talker.next("join")
    host, _, port = server.url.removeprefix("ws://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    query = f"access_token={server.token('deaf', 'r')}&join_request={join_parameter(rtc.JoinRequest())}"
    writer.write(
        f"GET /rtc/v1?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    assert b"101" in await reader.readline()
    assert (await talker.next("update")).update.participants[0].identity == "deaf"

    async def shout() -> None:
        for number in range(3_000):
            change = rtc.UpdateParticipantMetadata(metadata=f"{number} " + "x" * 20_000)
            await talker.send(rtc.SignalRequest(update_metadata=change))

    async with asyncio.TaskGroup() as group:
        shouting = group.create_task(shout())
        while (await talker.next("update")).update.participants[0].identity != "deaf":
            continue
        shouting.cancel()
    writer.close()


async def test_the_server_says_goodbye_when_it_ends(clients: Clients) -> None:
    server = RoomServer(RoomServerOptions(port=0))
    await server.start()
    endpoint = RoomEndpoint(url=server.url, api_key=DEV_API_KEY, api_secret=DEV_API_SECRET, kind="embedded")
    ann = await clients.join(endpoint, "ann")
    await ann.next("join")
    await server.aclose()
    assert (await ann.next("leave")).leave.reason == models.SERVER_SHUTDOWN
    await server.aclose()  # safe to repeat
