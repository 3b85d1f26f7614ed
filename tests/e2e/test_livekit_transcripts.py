"""The transcripts of LiveKitTransport in a real room: as another client sees them, to their last words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from livekit import rtc
from livekit.protocol import models

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import (
    Heard,
    joined,
    said,
    transport_in,
)
from kit.limits import LIMIT
from vivavoce.agents.dev_room import RoomServer, RoomServerOptions, client
from vivavoce.agents.dev_room.data import forward_data
from vivavoce.agents.dev_room.participant import Participant
from vivavoce.agents.dev_room.room import Room
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.transports.livekit import LiveKitTransport
from vivavoce.agents.transports.livekit.outbound import TextSender
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.io import TranscriptSegment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@asynccontextmanager
async def running_room() -> AsyncIterator[RoomEndpoint]:
    """A development room in the process of the test."""
    server = RoomServer(RoomServerOptions(port=0))
    await server.start()
    try:
        keys = server.options
        yield RoomEndpoint(url=server.url, api_key=keys.api_key, api_secret=keys.api_secret, kind="embedded")
    finally:
        await server.aclose()


@pytest.mark.both_servers
async def test_agent_transcript_grows_in_one_stream_and_ends_final(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await heard.until(lambda: "linked caller" in heard.log)
        for text in ("Hello,", "Hello, there"):
            transport.send_transcript(TranscriptSegment(segment_id="s1", who="agent", text=text, is_final=False))
            await caller.until(lambda text=text: said(caller, "s1") == text)  # type: ignore[misc]
        transport.send_transcript(TranscriptSegment(segment_id="s1", who="agent", text="Hello, there.", is_final=True))
        await caller.until(lambda: said(caller, "s1") == "Hello, there." and caller.streams[0].is_final)
        await transport.aclose()

    (stream,) = caller.streams
    assert stream.sender == "agent"
    assert stream.chunks == ["Hello,", " there", "."]
    assert stream.attributes["lk.transcribed_track_id"].startswith("TR_")


async def test_agent_transcript_that_is_taken_back_starts_anew(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    transport = transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, Heard())
        transport.send_transcript(TranscriptSegment(segment_id="s1", who="agent", text="One two three", is_final=False))
        await caller.until(lambda: said(caller, "s1") == "One two three")
        transport.send_transcript(TranscriptSegment(segment_id="s1", who="agent", text="One two", is_final=True))
        await caller.until(lambda: said(caller, "s1") == "One two" and caller.streams[-1].is_final)
        await transport.aclose()
    assert len(caller.streams) == 2


@pytest.mark.both_servers
async def test_user_transcript_appears_under_the_callers_identity(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await heard.until(lambda: "linked caller" in heard.log)
        transport.send_transcript(TranscriptSegment(segment_id="u1", who="user", text="I scream", is_final=False))
        await caller.until(lambda: said(caller, "u1") == "I scream")
        transport.send_transcript(TranscriptSegment(segment_id="u1", who="user", text="Ice cream.", is_final=True))
        await caller.until(lambda: said(caller, "u1") == "Ice cream.")
        await transport.aclose()
    assert [(each.sender, each.is_final) for each in caller.streams] == [("caller", False), ("caller", True)]


@pytest.mark.both_servers
async def test_texts_that_wait_at_the_end_are_still_sent(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room, publish_turns=True)
    async with (
        joined(room_server, room_name, "caller") as caller,
        joined(room_server, room_name, "guest") as guest,
        anyio.create_task_group() as tasks,
    ):
        await tasks.start(transport.run, heard)
        await heard.until(lambda: bool(heard.log))
        linked, other = (caller, guest) if heard.log == ["linked caller"] else (guest, caller)
        for number in range(5):
            transport.send_turn_record(f'{{"turn": {number}}}')
        transport.send_transcript(TranscriptSegment(segment_id="s9", who="agent", text="Bye.", is_final=True))
        await transport.leave()
        await linked.until(lambda: len(linked.streams) == 6 and said(linked, "s9") == "Bye.")
        await other.until(lambda: said(other, "s9") == "Bye.")
        await transport.aclose()
    assert ["".join(each.chunks) for each in linked.streams[:5]] == [f'{{"turn": {number}}}' for number in range(5)]
    assert len(other.streams) == 1
    assert not agent_room.isconnected()


@pytest.mark.parametrize("end", ["leave", "hangup"])
async def test_the_call_ends_when_the_last_words_have_arrived(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """The end of a text is on its way for longer than the notice that its sender has left: clients give it up then."""
    begun: list[models.DataPacket] = []

    def slowly(room: Room, sender: Participant, label: str, packet: models.DataPacket) -> None:
        delay = 0.3 if sender.is_agent and begun else 0.0
        begun.append(packet)
        asyncio.get_running_loop().call_later(delay, forward_data, room, sender, label, packet)

    monkeypatch.setattr(client, "forward_data", slowly)
    async with running_room() as server, joined(server, "room", "agent", "agent") as agent:
        credentials = Credentials(url=server.url, api_key=server.api_key, api_secret=server.api_secret)
        heard = Heard()
        transport = LiveKitTransport(agent.room, options=RoomOptions(), clock=LoopClock(), credentials=credentials)
        async with (
            joined(server, "room", "caller") as caller,
            joined(server, "room", "guest") as guest,
            anyio.create_task_group() as tasks,
        ):
            await tasks.start(transport.run, heard)
            await heard.until(lambda: bool(heard.log))
            transport.send_transcript(TranscriptSegment(segment_id="s1", who="agent", text="Bye.", is_final=True))
            await (transport.leave() if end == "leave" else transport.hangup())
            for listener in (caller, guest):
                await listener.until(lambda listener=listener: said(listener, "s1") == "Bye.", limit=5)  # type: ignore[misc]
            await transport.aclose()


async def test_last_words_are_sent_when_the_session_cancels_the_transport(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    transport = transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller:
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, Heard())
            transport.send_transcript(TranscriptSegment(segment_id="s1", who="agent", text="Bye.", is_final=False))
            transport.send_transcript(TranscriptSegment(segment_id="s2", who="user", text="Bye bye.", is_final=True))
            tasks.cancel_scope.cancel()
        await caller.until(lambda: (said(caller, "s1"), said(caller, "s2")) == ("Bye.", "Bye bye."))
        await transport.aclose()
        assert agent_room.isconnected()
        assert not agent_room.local_participant.track_publications


async def test_text_that_is_open_when_the_room_goes_is_given_up(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    texts = TextSender(agent_room.local_participant)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        tasks.start_soon(texts.run)
        for segment_id in ("s1", "s2"):
            opened = TranscriptSegment(segment_id=segment_id, who="agent", text="Hello,", is_final=False)
            texts.add_transcript(opened, sender=None, track_sid=None)
            await caller.until(lambda segment_id=segment_id: said(caller, segment_id) == "Hello,")  # type: ignore[misc]
        await agent_room.disconnect()
        last = TranscriptSegment(segment_id="s1", who="agent", text="Hello, there.", is_final=True)
        texts.add_transcript(last, sender=None, track_sid=None)
        tasks.cancel_scope.cancel()
        with anyio.fail_after(LIMIT, shield=True):
            await texts.finish()
