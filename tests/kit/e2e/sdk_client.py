"""A client on the plain SDK in the test's own process, its audio and texts, and tones to identify audio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import numpy as np
import numpy.typing as npt
from livekit import api, rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.limits import LIMIT
from vivavoce.agents.transports.livekit import LiveKitTransport
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import VoiceError
from vivavoce.pipelines.io import FileOutcome, OfferedFile
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame

PEER_RATE = 48000


class Watched:
    """Something that tests wait for."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], *, limit: float = LIMIT) -> None:
        with anyio.fail_after(limit):
            while not condition():
                await self._changed.wait()


class Heard(Watched):
    """A session's ears: records the events of the transport."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[AudioFrame] = []
        self.texts: list[str] = []
        self.log: list[str] = []
        self.stops: list[int] = []
        """How many frames had come at each stop."""

    def audio(self, frame: AudioFrame, late: float = 0.0) -> None:
        self.frames.append(frame)
        self.changed()

    def text(self, text: str) -> None:
        self.texts.append(text)
        self.changed()

    def part_answered(self, json_text: str) -> None:
        raise AssertionError("no part was sent")

    def file_offered(self, file: OfferedFile) -> int:
        return 0

    def file_ended(self, file: OfferedFile, outcome: FileOutcome, data: bytes = b"") -> None:
        raise AssertionError("no file was taken")

    def interrupt(self) -> None:
        self.log.append("interrupt")
        self.changed()

    def wants_video(self) -> bool:
        return False

    def video(self, frame: VideoFrame, thumbnail: bytes = b"") -> None:
        raise AssertionError("nobody wanted a picture")

    def video_stopped(self) -> None:
        pass

    def audio_stopped(self) -> None:
        self.stops.append(len(self.frames))
        self.changed()

    def participant_linked(self, identity: str) -> None:
        self.log.append(f"linked {identity}")
        self.changed()

    def key(self, key: str) -> None:
        self.log.append(f"key {key}")
        self.changed()

    def participant_left(self, identity: str, *, comes_back: bool = True) -> None:
        self.log.append(f"left {identity}" if comes_back else f"left {identity} for good")
        self.changed()

    def closed(self, reason: str) -> None:
        self.log.append(f"closed {reason}")
        self.changed()

    def failed(self, error: VoiceError, *, is_fatal: bool) -> None:
        self.log.append(f"failed {error}")
        self.changed()


class Stream(Watched):
    """One text stream as a client sees it."""

    def __init__(self, sender: str, attributes: dict[str, str]) -> None:
        super().__init__()
        self.sender = sender
        self.attributes = attributes
        self.chunks: list[str] = []

    @property
    def is_final(self) -> bool:
        return self.attributes["lk.transcription_final"] == "true"


def is_agent(participant: rtc.Participant) -> bool:
    """Whether it is an agent: by its kind, or by its name where a test gave it a plain token."""
    return participant.kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT or participant.identity.startswith("agent")


class Peer(Watched):
    """A client written for these tests on the plain SDK."""

    def __init__(self, room: rtc.Room) -> None:
        super().__init__()
        self.room = room
        self.samples: list[npt.NDArray[np.int16]] = []
        self.streams: list[Stream] = []
        self.states: list[str] = []
        self.audio_from: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: dict[str, asyncio.Task[None]] = {}
        room.on("track_subscribed", self._on_track)
        room.on("track_unsubscribed", self._on_track_gone)
        room.on("participant_attributes_changed", self._on_attributes)
        for topic in ("lk.transcription", "vivavoce.turns"):
            room.register_text_stream_handler(topic, self._on_text)

    def _on_track(self, track: rtc.Track, _: object, participant: rtc.RemoteParticipant) -> None:
        self.audio_from.append(participant.identity)
        if track.kind == rtc.TrackKind.KIND_AUDIO and is_agent(participant):
            self._listening[track.sid] = asyncio.create_task(self._listen(track))
            self._tasks.add(self._listening[track.sid])
        self.changed()

    def _on_track_gone(self, track: rtc.Track) -> None:
        if track.sid in self._listening:  # the SDK continues to deliver, even a later track in the place of this one
            self._listening.pop(track.sid).cancel()

    def _on_attributes(self, changed: dict[str, str], participant: rtc.Participant) -> None:
        if "lk.agent.state" in changed and participant.identity == "agent":
            self.states.append(changed["lk.agent.state"])
        self.changed()

    def _on_text(self, reader: rtc.TextStreamReader, sender: str) -> None:
        stream = Stream(sender, reader.info.attributes or {})
        self.streams.append(stream)
        self._tasks.add(asyncio.create_task(self._read(reader, stream)))

    async def _read(self, reader: rtc.TextStreamReader, stream: Stream) -> None:
        async for chunk in reader:
            stream.chunks.append(chunk)
            self.changed()
        stream.attributes |= reader.info.attributes or {}
        self.changed()

    async def _listen(self, track: rtc.Track) -> None:
        stream = rtc.AudioStream(track, sample_rate=PEER_RATE, num_channels=1)
        try:
            async for event in stream:
                self.samples.append(np.array(event.frame.data, dtype=np.int16))
                self.changed()
        finally:
            await stream.aclose()

    def audio(self) -> npt.NDArray[np.int16]:
        return np.concatenate(self.samples) if self.samples else np.zeros(0, np.int16)

    async def microphone(self, rate: int = PEER_RATE) -> rtc.AudioSource:
        """Publish a microphone, and return it when it is subscribed to."""
        source = rtc.AudioSource(rate, 1)
        track = rtc.LocalAudioTrack.create_audio_track("microphone", source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        publication = await self.room.local_participant.publish_track(track, options)
        with anyio.fail_after(LIMIT):
            await publication.wait_for_subscription()
        return source

    async def speak(self, hertz: float, seconds: float) -> None:
        """Publish a microphone and play a tone into it."""
        source = await self.microphone()
        for frame in tone(hertz, seconds, PEER_RATE):
            await source.capture_frame(rtc.AudioFrame(frame.data, PEER_RATE, 1, frame.samples))
        await source.wait_for_playout()
        await source.aclose()

    async def aclose(self) -> None:
        self.room.off("track_subscribed", self._on_track)
        for topic in ("lk.transcription", "vivavoce.turns"):
            self.room.unregister_text_stream_handler(topic)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.room.disconnect()


def token(
    server: RoomEndpoint,
    room: str,
    identity: str,
    kind: str = "standard",
    attributes: Mapping[str, str] | None = None,
) -> str:
    grants = api.VideoGrants(room_join=True, room=room, can_update_own_metadata=True)
    access = api.AccessToken(server.api_key, server.api_secret).with_identity(identity).with_grants(grants)
    access.with_attributes(dict(attributes or {}))
    return access.with_kind(kind).with_ttl(timedelta(minutes=5)).to_jwt()  # type: ignore[arg-type]  # a Literal there


@asynccontextmanager
async def joined(
    server: RoomEndpoint,
    room_name: str,
    identity: str,
    kind: str = "standard",
    attributes: Mapping[str, str] | None = None,
) -> AsyncIterator[Peer]:
    room = rtc.Room()
    peer = Peer(room)
    # Cancelled half-way, the SDK would go on to join, or leave a task behind.
    with anyio.fail_after(LIMIT, shield=True):
        await room.connect(server.url, token(server, room_name, identity, kind, attributes))
    try:
        yield peer
    finally:
        with anyio.fail_after(LIMIT, shield=True):
            await peer.aclose()


def tone(hertz: float, seconds: float, rate: int, amplitude: float = 8000.0) -> list[AudioFrame]:
    times = np.arange(round(seconds * rate)) / rate
    data = (amplitude * np.sin(2 * np.pi * hertz * times)).astype(np.int16).tobytes()
    step = rate // 50 * 2
    return [AudioFrame(data[at : at + step], rate) for at in range(0, len(data), step)]


def loud(samples: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """The samples between the first and the last loud one."""
    where = np.flatnonzero(np.abs(samples.astype(np.int32)) > 1000)
    return samples[where[0] : where[-1]] if len(where) else samples[:0]


def pitch(samples: npt.NDArray[np.int16], rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * rate / len(samples)


def level(samples: npt.NDArray[np.int16]) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(samples.astype(np.float64) ** 2)) / 32768))


def usual_level(samples: npt.NDArray[np.int16], rate: int) -> float:
    """The median level of 20 ms: a busy machine loses packets."""
    step = rate // 50
    pieces = samples[: len(samples) // step * step].reshape(-1, step).astype(np.float64)
    return float(20 * np.log10(np.median(np.sqrt(np.mean(pieces**2, axis=1))) / 32768))


def pcm(frames: list[AudioFrame]) -> npt.NDArray[np.int16]:
    return np.concatenate([frame.to_numpy() for frame in frames]) if frames else np.zeros(0, np.int16)


def said(peer: Peer, segment_id: str) -> str:
    """The text that a client shows for a segment: the newest stream of that id."""
    streams = [each for each in peer.streams if each.attributes.get("lk.segment_id") == segment_id]
    return "".join(streams[-1].chunks) if streams else ""


def agent_state(peer: Peer) -> str | None:
    agent = peer.room.remote_participants.get("agent")
    return None if agent is None else agent.attributes.get("lk.agent.state")


def transport_in(room: rtc.Room, *, participant: str | None = None, **options: object) -> LiveKitTransport:
    return LiveKitTransport(
        room,
        participant=participant,
        options=RoomOptions(**options),  # type: ignore[arg-type]  # each test names what it needs
        clock=LoopClock(),
    )
