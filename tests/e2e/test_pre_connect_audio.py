"""What a caller's client records before the agent comes, with the real SDK: heard once, in front of the live audio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import numpy as np
import numpy.typing as npt
import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import PEER_RATE, Heard, Peer, joined, pcm, token, transport_in
from kit.limits import LIMIT
from kit.recordings import RATE, babble
from vivavoce.agents.transports.livekit.agent_room import PRE_CONNECT_TOPIC, AgentRoom

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

ALONE = 1.0
"""Seconds that the caller speaks before the agent comes."""
SAID = 3.6
STRETCHED = 0.3
"""Seconds by which the jitter buffer of a busy machine may stretch live words; a lost or doubled piece is longer."""
WINDOW = round(0.4 * RATE)


class Speaker:
    """A caller that speaks from the first moment, records it, and publishes it with LiveKit's announcement."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        peer.room.on("participant_active", lambda _: peer.changed())
        self.samples = babble(SAID, rate=PEER_RATE)
        self.spoken = 0
        self.publication: rtc.LocalTrackPublication | None = None
        self._source = rtc.AudioSource(PEER_RATE, 1)

    async def speak(self) -> None:
        track = rtc.LocalAudioTrack.create_audio_track("microphone", self._source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE, preconnect_buffer=True)
        self.publication = await self._peer.room.local_participant.publish_track(track, options)
        self._peer.changed()
        step = PEER_RATE // 50
        for at in range(0, len(self.samples) - step + 1, step):
            piece = self.samples[at : at + step]
            await self._source.capture_frame(rtc.AudioFrame(piece.tobytes(), PEER_RATE, 1, step))
            self.spoken = at + step
        await self._source.wait_for_playout()

    async def send(self, **attributes: str) -> None:
        """Send what was spoken, once the agent is there and receives the track."""
        await self._peer.until(lambda: self.publication is not None)
        assert self.publication is not None
        with anyio.fail_after(LIMIT):
            await self.publication.wait_for_subscription()
        await self._peer.until(lambda: self._is_agent_active)
        writer = await self._peer.room.local_participant.stream_bytes(
            "preconnect-buffer",
            topic=PRE_CONNECT_TOPIC,
            destination_identities=["agent"],
            attributes={"trackId": self.publication.sid, "sampleRate": str(PEER_RATE), "channels": "1"} | attributes,
        )
        await writer.write(self.samples[: self.spoken].tobytes())
        await writer.aclose()

    @property
    def _is_agent_active(self) -> bool:
        agent = self._peer.room.remote_participants.get("agent")
        return agent is not None and agent.state == rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE


@asynccontextmanager
async def speaking(server: RoomEndpoint, room_name: str) -> AsyncIterator[tuple[Speaker, AgentRoom]]:
    """A caller who speaks, and after `ALONE` the agent's room."""
    async with joined(server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        speaker = Speaker(caller)
        tasks.start_soon(speaker.speak)
        await anyio.sleep(ALONE)
        room = AgentRoom(asyncio.get_running_loop())
        await room.connect(server.url, token(server, room_name, "agent", "agent"))
        yield speaker, room
        tasks.cancel_scope.cancel()
        await room.disconnect()


def places(heard: npt.NDArray[np.int16], said: npt.NDArray[np.int16]) -> list[float]:
    """Return for each window of the words by how many seconds it is heard after its place; windows not heard are left
    out."""
    found = []
    audio = heard.astype(np.float64)
    energy = np.convolve(audio**2, np.ones(WINDOW), mode="valid")
    for at in range(0, len(said) - WINDOW, WINDOW):
        window = said[at : at + WINDOW].astype(np.float64)
        points = 1 << (len(audio) + WINDOW).bit_length()
        products = np.fft.irfft(np.fft.rfft(audio, points) * np.conj(np.fft.rfft(window, points)), points)
        alike = products[: len(energy)] / np.sqrt(energy * np.sum(window**2) + 1.0)
        if alike.max() > 0.5:
            found.append((int(np.argmax(alike)) - at) / RATE)
    return found


async def test_words_before_the_agent_are_heard_first_and_the_live_ones_behind_them_none_twice(
    room_server: RoomEndpoint, room_name: str
) -> None:
    heard = Heard()
    async with speaking(room_server, room_name) as (speaker, room), anyio.create_task_group() as tasks:
        transport = transport_in(room)
        tasks.start_soon(speaker.send)
        await anyio.sleep(0.2)  # the code of a job may start its session later than it connects
        await tasks.start(transport.run, heard)
        await heard.until(lambda: len(heard.frames) > (SAID - 0.5) * 50)
        await transport.aclose()
        tasks.cancel_scope.cancel()
    assert not [entry for entry in heard.log if entry.startswith("failed")]
    shifts = places(pcm(heard.frames), babble(SAID, rate=PEER_RATE)[:: PEER_RATE // RATE])
    assert len(shifts) >= 6
    assert max(shifts) - min(shifts) < STRETCHED, "in order, without a gap and none twice"


@pytest.mark.test_all("tests of the transport's parts prove every such recording")
async def test_a_recording_in_a_format_that_is_none_is_reported_and_the_live_audio_is_heard(
    room_server: RoomEndpoint, room_name: str
) -> None:
    heard = Heard()
    async with speaking(room_server, room_name) as (speaker, room), anyio.create_task_group() as tasks:
        transport = transport_in(room)
        tasks.start_soon(lambda: speaker.send(sampleRate="many"))
        await tasks.start(transport.run, heard)
        await heard.until(lambda: len(heard.frames) > 50)
        await transport.aclose()
        tasks.cancel_scope.cancel()
    (failed,) = [entry for entry in heard.log if entry.startswith("failed")]
    assert "'sampleRate' must be a whole number from 8000 to 192000, got 'many'" in failed
