"""A telephone's call in a LiveKit room: the line is LiveKit's SIP service, as it was measured with 1.9.0."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import anyio
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Peer, joined
from kit.line.baresip import RATE
from kit.line.sip_line import Leg

CODES = "0123456789*#ABCD"
"""The keys in the order of their codes."""
STATUS = "sip.callStatus"


def in_room(endpoint: RoomEndpoint, room: str) -> Callable[[Leg], Awaitable[None]]:
    """Return a function that holds a call of the line in a room: it rings until another participant has a track."""

    async def hold(leg: Leg) -> None:
        await hold_in_room(leg, endpoint, room, f"sip_{leg.number}", "ringing")

    return hold


async def hold_in_room(leg: Leg, endpoint: RoomEndpoint, room: str, identity: str, status: str) -> None:
    """Hold a call in a room to its end.

    Args:
        status: Of the call when the participant joins.
    """
    attributes = {STATUS: status, "sip.phoneNumber": leg.number, "sip.trunkPhoneNumber": leg.called_number}
    async with joined(endpoint, room, identity, "sip", attributes) as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(_RoomLeg(leg, peer).run)
        await _end_of(leg, peer)
        tasks.cancel_scope.cancel()
        if leg.is_over and peer.room.isconnected():
            await peer.room.local_participant.set_attributes({STATUS: "hangup"})


async def _end_of(leg: Leg, peer: Peer) -> None:
    """Wait until the telephone hangs up or the participant is removed from the room."""
    removed = anyio.Event()
    peer.room.on("disconnected", lambda _: removed.set())
    async with anyio.create_task_group() as tasks:

        async def watch(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch, leg.over)
        tasks.start_soon(watch, removed)


class _RoomLeg:
    """Audio and keys, both ways."""

    def __init__(self, leg: Leg, peer: Peer) -> None:
        self._leg, self._peer = leg, peer
        self._said, self._to_publish = anyio.create_memory_object_stream[bytes](math.inf)
        self._pressed, self._to_press = anyio.create_memory_object_stream[str](math.inf)
        peer.room.on("sip_dtmf_received", self._take_key)

    async def run(self) -> None:
        room = self._peer.room.local_participant
        source = rtc.AudioSource(RATE, 1)
        track = rtc.LocalAudioTrack.create_audio_track("telephone", source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await room.publish_track(track, options)
        try:
            agents = await self._agents_track()
            await self._leg.answer()
            await room.set_attributes({STATUS: "active"})
            self._leg.on_audio = self._said.send_nowait
            self._leg.on_key = self._pressed.send_nowait
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._publish, source)
                tasks.start_soon(self._press)
                await self._play(agents)
        finally:
            with anyio.CancelScope(shield=True):
                await source.aclose()
            for stream in (self._said, self._to_publish, self._pressed, self._to_press):
                stream.close()

    async def _agents_track(self) -> rtc.Track:
        """Wait until another participant has a track of audio, and return it."""

        def tracks() -> list[rtc.Track]:
            return [
                publication.track
                for participant in self._peer.room.remote_participants.values()
                for publication in participant.track_publications.values()
                if publication.track is not None and publication.kind == rtc.TrackKind.KIND_AUDIO
            ]

        await self._peer.until(lambda: bool(tracks()))
        return tracks()[0]

    async def _play(self, track: rtc.Track) -> None:
        stream = rtc.AudioStream(track, sample_rate=RATE, num_channels=1, frame_size_ms=20)
        try:
            async for event in stream:
                self._leg.play(bytes(event.frame.data))
        finally:
            with anyio.CancelScope(shield=True):
                await stream.aclose()

    async def _publish(self, source: rtc.AudioSource) -> None:
        async for pcm in self._to_publish:
            await source.capture_frame(rtc.AudioFrame(pcm, RATE, 1, len(pcm) // 2))

    async def _press(self) -> None:
        async for key in self._to_press:  # A to D come in lower case from LiveKit's service
            await self._peer.room.local_participant.publish_dtmf(code=CODES.index(key), digit=key.lower())

    def _take_key(self, key: rtc.SipDTMF) -> None:
        self._leg.press(key.digit.upper())
