"""Two and more LiveKit clients, each in a process of its own, through the embedded room and through a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import permutations

import pytest
from livekit.api import VideoGrants

from kit.e2e.peer_process import PeerError, PeerProcess
from kit.e2e.proxy import TcpProxy
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents.dev_room import RoomProcess, RoomServerOptions

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

Connect = Callable[..., Awaitable[PeerProcess]]

CLIENT_INITIATED = 1
"""rtc.DisconnectReason of a client that has said that it leaves."""


async def two(connect: Connect, server: RoomEndpoint) -> tuple[PeerProcess, PeerProcess]:
    """Join two, one after the other: ben knows of ann."""
    return await connect(server, "ann"), await connect(server, "ben")


async def pair(connect: Connect, server: RoomEndpoint) -> tuple[PeerProcess, PeerProcess]:
    """Join two that know of each other; a LiveKit server takes three seconds to tell of one who publishes nothing."""
    ann, ben = await two(connect, server)
    await ann.event("participant_connected", identity="ben")
    return ann, ben


@pytest.mark.both_servers
async def test_a_tone_arrives_at_its_level_and_frequency_both_ways(room_server: RoomEndpoint, connect: Connect) -> None:
    ann, ben = await two(connect, room_server)
    await asyncio.gather(ann.call("publish_tone", hertz=440.0), ben.call("publish_tone", hertz=880.0))
    await asyncio.gather(
        ann.event("track_subscribed", identity="ben"),
        ben.event("track_subscribed", identity="ann"),
        ann.event("local_track_subscribed"),
        ben.event("local_track_subscribed"),
    )

    await asyncio.gather(ben.call("hears", identity="ann", hertz=440.0), ann.call("hears", identity="ben", hertz=880.0))


async def test_everyone_of_five_hears_everyone_else(room_server: RoomEndpoint, connect: Connect) -> None:
    names = ["ann", "ben", "cleo", "dan", "eve"]
    tones = {name: 400.0 + 150.0 * i for i, name in enumerate(names)}
    peers = {name: await connect(room_server, name) for name in names}
    await asyncio.gather(*(peers[name].call("publish_tone", hertz=hertz) for name, hertz in tones.items()))
    paths = list(permutations(names, 2))
    await asyncio.gather(*(peers[to].event("track_subscribed", identity=of) for of, to in paths))

    await asyncio.gather(*(peers[to].call("hears", identity=of, hertz=tones[of]) for of, to in paths))


@pytest.mark.both_servers
async def test_a_track_taken_back_and_published_again_is_heard_again(
    room_server: RoomEndpoint, connect: Connect
) -> None:
    ann, ben = await two(connect, room_server)
    first = await ann.call("publish_tone", hertz=440.0)
    await ben.event("track_subscribed", identity="ann", sid=first)
    await ann.call("unpublish")
    await ben.event("track_unpublished", identity="ann", sid=first)

    second = await ann.call("publish_tone", hertz=660.0)
    await ben.event("track_subscribed", identity="ann", sid=second)

    await ben.call("hears", identity="ann", hertz=660.0)


@pytest.mark.both_servers
async def test_a_muted_track_is_silent_and_seen_as_muted(room_server: RoomEndpoint, connect: Connect) -> None:
    ann, ben = await two(connect, room_server)
    await ann.call("publish_tone", hertz=440.0)
    await ben.event("track_subscribed", identity="ann")
    await ann.call("mute", on=True)
    await ben.event("track_muted", identity="ann")
    await ben.call("hears_silence", identity="ann")

    await ann.call("mute", on=False)
    await ben.event("track_unmuted", identity="ann")
    await ben.call("hears", identity="ann", hertz=440.0)


@pytest.mark.both_servers
async def test_the_one_who_plays_is_the_active_speaker(room_server: RoomEndpoint, connect: Connect) -> None:
    ann, ben = await two(connect, room_server)
    await ann.call("publish_tone", hertz=440.0)

    await ben.event("active_speakers", identities=["ann"])
    await ann.call("mute", on=True)
    await ben.event("active_speakers", identities=[])


@pytest.mark.both_servers
@pytest.mark.parametrize("reliable", [True, False])
async def test_data_reaches_the_others_and_the_named_only(
    room_server: RoomEndpoint, connect: Connect, reliable: bool
) -> None:
    ann, ben = await pair(connect, room_server)
    cleo = await connect(room_server, "cleo")
    await ann.event("participant_connected", identity="cleo")

    await ann.call("send_data", text="for ben", reliable=reliable, topic="t", to=["ben"])
    await ann.call("send_data", text="for all", reliable=reliable, topic="t")

    await ben.event("data", identity="ann", topic="t", payload="for ben", reliable=reliable)
    await ben.event("data", identity="ann", topic="t", payload="for all")
    await cleo.event("data", identity="ann", topic="t", payload="for all")
    assert not [event for event in cleo.events if event.get("payload") == "for ben"]
    assert not [event for event in ann.events if event["event"] == "data"]


@pytest.mark.both_servers
async def test_a_text_stream_arrives_whole_and_in_order(room_server: RoomEndpoint, connect: Connect) -> None:
    ann, ben = await pair(connect, room_server)
    await ben.call("receive_text", topic="lk.chat")
    chunks = [f"chunk {i}, ünïcode 🎧; " * 50 for i in range(40)]

    await ann.call("send_text", topic="lk.chat", chunks=chunks)

    assert (await ben.event("text", topic="lk.chat", identity="ann"))["text"] == "".join(chunks)


@pytest.mark.both_servers
async def test_an_agents_captions_of_the_caller_appear_under_the_caller(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    caller = await connect(room_server, "caller")
    grants = VideoGrants(room_join=True, room=room_name, agent=True, can_update_own_metadata=True)
    agent = await connect(room_server, "agent", agent=True, grants=grants)
    await caller.call("receive_text", topic="lk.transcription")
    segment = {"lk.segment_id": "SG_1", "lk.transcription_final": "true"}

    await agent.call(
        "send_text", topic="lk.transcription", chunks=["a table ", "for two"], attributes=segment, sender="caller"
    )

    captions = await caller.event("text", topic="lk.transcription")
    assert captions["text"] == "a table for two"
    assert captions["identity"] == "caller"
    assert captions["attributes"].items() >= segment.items()


@pytest.mark.both_servers
async def test_nobody_but_an_agent_speaks_under_another_name(room_server: RoomEndpoint, connect: Connect) -> None:
    ann, ben = await pair(connect, room_server)
    await ben.call("receive_text", topic="lk.transcription")

    await ann.call("send_text", topic="lk.transcription", chunks=["I am ben"], sender="ben")

    assert (await ben.event("text", topic="lk.transcription"))["identity"] == "ann"


@pytest.mark.both_servers
@pytest.mark.parametrize("size", [2, 12_000])
async def test_a_remote_call_is_answered(room_server: RoomEndpoint, connect: Connect, size: int) -> None:
    ann, ben = await pair(connect, room_server)
    await ben.call("serve_rpc", method="echo")

    assert await ann.call("call_rpc", to="ben", method="echo", payload="x" * size) == "ann:" + "x" * size


@pytest.mark.both_servers
async def test_attributes_and_metadata_reach_those_present_and_those_who_come_later(
    room_server: RoomEndpoint, connect: Connect
) -> None:
    ann, ben = await pair(connect, room_server)
    await ann.call("describe", attributes={"lk.agent.state": "listening", "gone": "soon"})
    await ben.event("attributes", identity="ann", changed={"lk.agent.state": "listening", "gone": "soon"})
    await ann.call("describe", attributes={"gone": ""})
    await ann.call("describe", metadata="m")
    await ben.event("metadata", identity="ann", metadata="m")

    cleo = await connect(room_server, "cleo")

    seen = (await cleo.call("others"))["ann"]
    assert seen["attributes"] == {"lk.agent.state": "listening"}
    assert seen["metadata"] == "m"


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ({"api_secret": "another-secret-another-secret-another"}, "another API secret"),
        ({"ttl": -600.0}, "expired"),
        ({"grants": VideoGrants(room="r")}, "roomJoin"),
    ],
    ids=["wrong secret", "expired", "no grant"],
)
async def test_a_bad_token_is_refused_at_once_with_a_reason(
    room_server: RoomEndpoint, token: dict[str, object], said: str
) -> None:
    jwt = room_server.token("ann", "r", **token)  # type: ignore[arg-type]
    host, _, port = room_server.url.removeprefix("ws://").partition(":")
    async with TcpProxy(host, int(port)) as proxy, PeerProcess() as peer:
        with pytest.raises(PeerError, match="401") as refusal:
            await peer.call("connect", url=proxy.url, token=jwt)
    assert proxy.connections <= 2  # the websocket, then the question why; one that tries again and again makes more
    if room_server.kind == "embedded":
        assert said in str(refusal.value)
        assert jwt not in str(refusal.value)


@pytest.mark.both_servers
async def test_a_second_client_of_the_same_identity_takes_the_place(
    room_server: RoomEndpoint, connect: Connect
) -> None:
    first = await connect(room_server, "ann")
    second = await connect(room_server, "ann")

    assert (await first.event("disconnected"))["reason"] == 2  # DUPLICATE_IDENTITY
    assert not [event for event in second.events if event["event"] == "disconnected"]


@pytest.mark.both_servers
async def test_a_client_that_leaves_is_gone_at_once(room_server: RoomEndpoint, connect: Connect) -> None:
    ann, ben = await two(connect, room_server)
    await ann.call("publish_tone", hertz=440.0)
    await ben.event("track_subscribed", identity="ann")
    await ben.call("hears", identity="ann", hertz=440.0)
    await ann.call("disconnect")
    await ben.event("participant_disconnected", identity="ann", reason=CLIENT_INITIATED)  # not lost: it has left


async def test_a_killed_client_is_seen_leaving_after_its_grace(connect: Connect) -> None:
    async with RoomProcess(RoomServerOptions(port=0, participant_grace=1.0)) as room:
        endpoint = RoomEndpoint(url=room.url, api_key=room.api_key, api_secret=room.api_secret, kind="embedded")
        ann, ben = await pair(connect, endpoint)
        await ann.call("publish_tone", hertz=440.0)
        await ben.event("track_subscribed", identity="ann")
        ann.kill()
        await ben.event("participant_disconnected", identity="ann")


@pytest.mark.test_all("a server's own grace is long: ten seconds, or half a minute")
async def test_a_killed_client_is_seen_leaving(room_server: RoomEndpoint, connect: Connect) -> None:
    ann, ben = await pair(connect, room_server)
    await ann.call("publish_tone", hertz=440.0)
    await ben.event("track_subscribed", identity="ann")
    ann.kill()

    limit = 12.0 if room_server.kind == "embedded" else 35.0
    await ben.event("participant_disconnected", identity="ann", limit=limit)
