"""Bridge: carries the voices of two participants, each in a room of its own, to each other.

The agent is in both rooms. Each voice is a track of the agent's in the other room, with one more jitter buffer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.callbacks import callbacks
from vivavoce.agents.transports.livekit.inbound import MicrophoneReader
from vivavoce.agents.transports.livekit.link import MICROPHONE_EVENTS, find_microphone
from vivavoce.agents.transports.livekit.publishing import publish, unpublish
from vivavoce.agents.transports.livekit.sink import LiveKitSink
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.media.frame import AudioFrame

RATE = 24000
MOST_QUEUED = 0.2
"""Seconds of audio that may wait to be played; a late loop must not delay the voice for the rest of the call."""


@asynccontextmanager
async def bridge(one: rtc.Room, caller: str, other: rtc.Room, person: str, clock: Clock) -> AsyncIterator[Bridge]:
    """Publish the two tracks, for the length of the block; `run()` carries the voices.

    Args:
        caller: Identity of the participant in the room `one`.
        person: Identity of the participant in the room `other`.
    Raises:
        RoomError: A room did not take the track.
    """
    async with AsyncExitStack() as stack:
        relays = [Relay(one, caller, other, clock), Relay(other, person, one, clock)]
        for relay in relays:
            stack.push_async_callback(relay.aclose)
            await relay.open()
        yield Bridge(relays)


class Bridge:
    """The voices both ways."""

    def __init__(self, relays: list[Relay]) -> None:
        self._relays = relays

    async def run(self) -> None:
        """Carry the voices until cancelled."""
        async with anyio.create_task_group() as tasks:
            for relay in self._relays:
                tasks.start_soon(relay.run)


class Relay:
    """One voice: the microphone of a participant, as a track in another room."""

    def __init__(self, source: rtc.Room, identity: str, target: rtc.Room, clock: Clock) -> None:
        self._source = source
        self._identity = identity
        self._target = target
        self._sink = LiveKitSink(clock, sample_rate=RATE)
        self._reader = MicrophoneReader(RATE, self._pass_on, lambda: None, clock)
        self._publication: rtc.LocalTrackPublication | None = None
        self._requested: set[str] = set()
        self._changed = anyio.Event()

    async def open(self) -> None:
        """Publish the track."""
        track = rtc.LocalAudioTrack.create_audio_track(f"voice of {self._identity}", self._sink.open())
        self._publication = await publish(self._target, track)

    async def run(self) -> None:
        """Carry the voice until cancelled."""
        with callbacks(self._source, dict.fromkeys(MICROPHONE_EVENTS, self._look)):
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._sink.pump)
                    tasks.start_soon(self._reader.run)
                    while True:
                        self._changed = anyio.Event()
                        self._follow()
                        await self._changed.wait()
            finally:
                self._sink.stop()

    async def aclose(self) -> None:
        """Take the track back."""
        self._sink.stop()
        publication, self._publication = self._publication, None
        await unpublish(self._target, publication)
        await self._sink.aclose()

    def _pass_on(self, frame: AudioFrame) -> None:
        if self._target.isconnected() and self._sink.queued() <= MOST_QUEUED * RATE:
            self._sink.write(frame)

    def _follow(self) -> None:
        participant = self._source.remote_participants.get(self._identity)
        publication = None if participant is None else find_microphone(participant)
        track = None if publication is None else publication.track
        if publication is not None and track is None and publication.sid not in self._requested:
            self._requested.add(publication.sid)
            publication.set_subscribed(True)  # the room may have been connected with auto_subscribe off
        if publication is not None and isinstance(track, rtc.RemoteAudioTrack):
            self._reader.follow(track, is_muted=publication.muted)
        else:
            self._reader.follow(None)

    def _look(self, *_: object) -> None:
        self._changed.set()
