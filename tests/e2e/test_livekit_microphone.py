"""Reports of LiveKitTransport when the caller's microphone disappears in mid-speech, and when it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Heard, Peer, joined, loud, pcm, transport_in

pytestmark = [pytest.mark.both_servers, pytest.mark.e2e, pytest.mark.timeout(120)]


async def mute(caller: Peer) -> None:
    microphone(caller).mute()


async def unpublish(caller: Peer) -> None:
    await caller.room.local_participant.unpublish_track(microphone(caller).sid)


async def disconnect(caller: Peer) -> None:
    await caller.room.disconnect()


def microphone(caller: Peer) -> rtc.LocalAudioTrack:
    (publication,) = caller.room.local_participant.track_publications.values()
    assert isinstance(publication.track, rtc.LocalAudioTrack)
    return publication.track


@pytest.mark.parametrize("act", [mute, unpublish, disconnect])
async def test_microphone_that_goes_away_in_mid_speech_is_told_at_once_and_once(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, act: Callable[[Peer], Awaitable[None]]
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    left: list[int | None] = []
    agent_room.on("participant_disconnected", lambda participant: left.append(participant.disconnect_reason))
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        tasks.start_soon(caller.speak, 700.0, 30.0)
        await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.4 * 16000)
        assert not heard.stops
        await act(caller)
        await heard.until(lambda: bool(heard.stops) and (act is not disconnect or bool(left)))
        # The room has not taken the caller for lost, which it does seconds later.
        assert left == ([rtc.DisconnectReason.CLIENT_INITIATED] if act is disconnect else [])
        await anyio.sleep(0.3)  # no event says that nothing comes
        assert heard.stops == [len(heard.frames)]  # reported once, and no frame comes after it
        await transport.aclose()
        tasks.cancel_scope.cancel()


async def test_microphone_that_is_muted_and_opened_again_is_heard_again(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        tasks.start_soon(caller.speak, 700.0, 30.0)
        await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.2 * 16000)
        microphone(caller).mute()
        await heard.until(lambda: bool(heard.stops))
        before = len(heard.frames)
        microphone(caller).unmute()
        await heard.until(lambda: len(loud(pcm(heard.frames[before:]))) > 0.4 * 16000)
        assert len(heard.stops) == 1
        await transport.aclose()
        tasks.cancel_scope.cancel()
