"""A caller who hears every agent of the room at once, dates the audio, types and speaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby

import anyio
import numpy as np
from livekit import rtc

from kit.e2e.sdk_client import Watched
from kit.limits import LIMIT

RATE = 16000
LOUD = 300.0
"""RMS, of 32768, from which 20 ms count as sound (-41 dB)."""


class Listener(Watched):
    """Times are the monotonic clock's, when audio arrived here."""

    def __init__(self, room: rtc.Room) -> None:
        super().__init__()
        self.room = room
        self.loud_at: list[float] = []
        """When each loud 20 ms of any agent came."""
        self.heard: dict[str, list[float]] = {}
        """The same, by the agent's identity."""
        self.came: dict[str, float] = {}
        """When a participant joined after this one, by its identity."""
        self.is_loud: dict[str, list[bool]] = {}
        """Each 20 ms of an agent's audio, by its identity: their order is that of the audio, however late they came."""
        self.texts: dict[str, str] = {}
        """Transcripts of the agents, by segment."""
        self._tasks: set[asyncio.Task[None]] = set()
        room.on("track_subscribed", self._on_track)
        room.on("participant_connected", lambda one: self.came.setdefault(one.identity, time.monotonic()))
        room.on("participant_disconnected", lambda _: self.changed())
        room.register_text_stream_handler("lk.transcription", self._on_text)

    @property
    def agents(self) -> list[str]:
        """Identities of the agents in the room now."""
        kind = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
        return [one.identity for one in self.room.remote_participants.values() if one.kind == kind]

    def longest_silence(self, since: float, until: float) -> float:
        """Return the longest stretch without sound of anybody between two times."""
        times = [since, *(at for at in sorted(self.loud_at) if since <= at <= until), until]
        return max(after - before for before, after in zip(times, times[1:], strict=False))

    def longest_quiet(self, identity: str, since: int) -> float:
        """Return the seconds of the longest quiet stretch in an agent's audio, from that 20 ms on."""
        runs = groupby(self.is_loud[identity][since:])
        return max((len(list(run)) for is_loud, run in runs if not is_loud), default=0) * 0.02

    def _on_track(self, track: rtc.Track, _: object, participant: rtc.RemoteParticipant) -> None:
        if track.kind == rtc.TrackKind.KIND_AUDIO:
            self._start(self._listen(track, participant.identity))

    def _on_text(self, reader: rtc.TextStreamReader, sender: str) -> None:
        self._start(self._read(reader))

    def _start(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]  # a coroutine
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, reader: rtc.TextStreamReader) -> None:
        text = await reader.read_all()
        self.texts[(reader.info.attributes or {}).get("lk.segment_id", "")] = text
        self.changed()

    async def _listen(self, track: rtc.Track, identity: str) -> None:
        mine = self.heard.setdefault(identity, [])
        is_loud = self.is_loud.setdefault(identity, [])
        stream = rtc.AudioStream.from_track(track=track, sample_rate=RATE, num_channels=1, frame_size_ms=20)
        try:
            async for event in stream:
                samples = np.frombuffer(event.frame.data, dtype=np.int16).astype(np.float64)
                is_loud.append(bool(np.sqrt(np.mean(samples**2)) >= LOUD))
                if is_loud[-1]:
                    mine.append(time.monotonic())
                    self.loud_at.append(mine[-1])
                    self.changed()
        finally:
            await stream.aclose()

    async def speak(self, pcm: bytes) -> None:
        """Play speech, 16-bit mono at `RATE`, by a microphone that continues with silence."""
        source = rtc.AudioSource(RATE, 1, queue_size_ms=200)
        track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        publication = await self.room.local_participant.publish_track(track, options)
        with anyio.fail_after(LIMIT):
            await publication.wait_for_subscription()
        pcm = bytes(RATE) + pcm + bytes(RATE * 4)  # half a second before, two behind
        for at in range(0, len(pcm) - RATE // 25 + 1, RATE // 25):
            await source.capture_frame(rtc.AudioFrame(pcm[at : at + RATE // 25], RATE, 1, RATE // 50))
        await source.wait_for_playout()

    async def aclose(self) -> None:
        await self.room.disconnect()  # first: a track that comes meanwhile would begin another task
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def listening(url: str, token: str) -> AsyncIterator[Listener]:
    room = rtc.Room()
    listener = Listener(room)
    await room.connect(url, token)
    try:
        yield listener
    finally:
        with anyio.CancelScope(shield=True):
            await listener.aclose()
