"""Owns the simulated caller's end of a room: joining, its microphone, the agent's voice, frame for frame."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.cli.caller.line import FRAME_SAMPLES, SAMPLE_RATE, Line
from vivavoce.agents.cli.caller.process import tell
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from livekit import rtc

    from vivavoce.pipelines.stt.base import STTStream

CONNECT_LIMIT = 10.0
ANSWER_LIMIT = 20.0
"""Seconds for the agent to join and publish its track."""
MAX_QUEUED = 0.025
"""Seconds of the caller's audio that may wait to be sent; beyond, silence is left out until it has caught up."""
BACKGROUND_TRACK = "background_audio"
"""What agents call a second track, which is no voice."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The room's two ends of the caller."""

    room: rtc.Room

    source: rtc.AudioSource
    agent: rtc.AudioStream


@asynccontextmanager
async def connected(
    url: str, token: str, *, answer_limit: float = ANSWER_LIMIT, on_room: Callable[[rtc.Room], None] | None = None
) -> AsyncIterator[Connection]:
    """Join the room, publish the microphone, wait for the agent's voice.

    Args:
        answer_limit: Seconds for the agent to join and publish its track.
        on_room: Gets the room before it connects, to listen to more of it.
    Raises:
        RoomError: The room cannot be joined, or no agent came.
    """
    from livekit import rtc

    room = rtc.Room()
    tracks, track_seen = anyio.create_memory_object_stream[rtc.RemoteAudioTrack](8)
    _watch(room, tracks)
    if on_room is not None:
        on_room(room)
    try:
        with anyio.fail_after(CONNECT_LIMIT):
            await room.connect(url, token)
            source = rtc.AudioSource(SAMPLE_RATE, 1, queue_size_ms=200)
            microphone = rtc.LocalAudioTrack.create_audio_track("microphone", source)
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
            await room.local_participant.publish_track(microphone, options)
        tell("joined", room=room.name)
        with anyio.fail_after(answer_limit):
            track = await track_seen.receive()
        tell("answered")
        stream = rtc.AudioStream.from_track(
            track=track, sample_rate=SAMPLE_RATE, num_channels=1, frame_size_ms=round(1000 * FRAME_SECONDS)
        )
        try:
            yield Connection(room, source, stream)
        finally:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
    except rtc.ConnectError as error:
        raise RoomError(f"the caller could not join {url}: {error}") from error
    except TimeoutError as error:
        raise RoomError("no agent answered the call in time; is a worker registered?") from error
    finally:
        tracks.close()
        track_seen.close()
        with anyio.move_on_after(1.0, shield=True):
            await room.disconnect()


def _watch(room: rtc.Room, tracks: MemoryObjectSendStream[rtc.RemoteAudioTrack]) -> None:
    from livekit import rtc

    @room.on("track_subscribed")
    def on_track(track: rtc.Track, publication: rtc.RemoteTrackPublication, participant: rtc.RemoteParticipant) -> None:
        if isinstance(track, rtc.RemoteAudioTrack) and publication.name != BACKGROUND_TRACK:
            tracks.send_nowait(track)


async def converse(
    call: Connection,
    line: Line,
    ears: STTStream | None,
    *,
    limit: float,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Talk until the line hangs up, the agent's voice ends, or `limit` seconds are over; then close the ears.

    Args:
        beside: Runs meanwhile, and is cancelled at the end.
    """
    try:
        async with anyio.create_task_group() as tasks:
            if beside is not None:
                tasks.start_soon(beside)
            if ears is not None:
                tasks.start_soon(_understand, ears, line)
            with anyio.move_on_after(limit):
                await _talk(call, line)
            tasks.cancel_scope.cancel()
    finally:
        if ears is not None:
            with anyio.CancelScope(shield=True):
                await ears.aclose()


async def _understand(ears: STTStream, line: Line) -> None:
    """Bring what the recogniser hears to the line, until it is closed."""
    async for event in ears.events():
        line.understood(event)


async def _talk(call: Connection, line: Line) -> None:
    """Exchange frame for frame until one side hangs up: what is received is the only clock."""
    async for event in call.agent:
        frame = event.frame
        if frame.samples_per_channel != FRAME_SAMPLES:
            continue
        out = line.exchange(AudioFrame(bytes(frame.data), SAMPLE_RATE))
        if line.hung_up is not None:
            return
        if out is None and call.source.queued_duration > MAX_QUEUED:
            continue
        await call.source.capture_frame(_to_room(out or AudioFrame.silence(FRAME_SECONDS, SAMPLE_RATE)))


def _to_room(frame: AudioFrame) -> rtc.AudioFrame:
    from livekit import rtc

    return rtc.AudioFrame(frame.data, frame.sample_rate, frame.num_channels, frame.samples)
