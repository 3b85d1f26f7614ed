"""A caller with a voice: joins a room, speaks synthetic speech as PCM, and records both sides on one clock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager

import anyio
import numpy as np
import numpy.typing as npt
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Watched, token
from kit.limits import LIMIT
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import TTS
from vivavoce.plugins import espeak

RATE = 16000
FRAME = RATE // 50
WINDOW = RATE // 100
AUDIBLE = 0.01
"""RMS, of full scale, from which 10 ms count as sound (-40 dB)."""
MAX_QUEUED = 0.025
"""Seconds of the caller's audio that may wait; beyond, silence is left out until it has caught up."""
VOICE = "en-us+f2"


async def spoken(tts: TTS, text: str) -> bytes:
    """PCM at `RATE` of a text, without the silence around it."""
    resampler = Resampler(tts.capabilities.sample_rate, RATE)
    async with aclosing(tts.synthesize(text)) as chunks:
        pieces = [resampler.push(chunk.frame).data async for chunk in chunks]
    pcm = b"".join(pieces) + resampler.flush().data
    (start, *_), (*_, end) = zip(*sounds(pcm, quiet=10.0), strict=True)
    return pcm[2 * round(start * RATE) : 2 * round(end * RATE)]


def sounds(pcm: bytes, *, quiet: float = 0.3) -> list[tuple[float, float]]:
    """Stretches of sound, (start, end) in seconds; silences shorter than `quiet` are pauses between words."""
    samples = np.frombuffer(pcm, dtype=np.int16)
    whole = samples[: len(samples) // WINDOW * WINDOW].astype(np.float32).reshape(-1, WINDOW) / 32768
    loud: npt.NDArray[np.intp] = np.flatnonzero(np.sqrt(np.mean(np.square(whole), axis=1)) >= AUDIBLE)
    found: list[tuple[float, float]] = []
    for window in loud.tolist():
        start, end = window / 100, (window + 1) / 100
        if found and start - found[-1][1] < quiet:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


class Talker(Watched):
    """One caller. Times are seconds of received audio, which is its only clock, as for a caller's ears.

    Args:
        lines: PCM of each possible line, by text.
    """

    def __init__(self, source: rtc.AudioSource, lines: dict[str, bytes]) -> None:
        super().__init__()
        self._source = source
        self._lines = lines
        self._unsaid: deque[bytes] = deque()
        self._received = bytearray()
        self._sent = bytearray()

    @property
    def now(self) -> float:
        return len(self._received) / 2 / RATE

    def say(self, text: str) -> float:
        """Begin to say one of the lines; return how long it is."""
        pcm = self._lines[text]
        self._unsaid.extend(pcm[at : at + 2 * FRAME].ljust(2 * FRAME, b"\0") for at in range(0, len(pcm), 2 * FRAME))
        return len(pcm) / 2 / RATE

    def heard(self, *, quiet: float = 0.3) -> list[tuple[float, float]]:
        """The agent's audio: stretches of sound."""
        return sounds(bytes(self._received), quiet=quiet)

    def said(self) -> list[tuple[float, float]]:
        """The caller's audio, on the same clock."""
        return sounds(bytes(self._sent))

    def agent_sounds(self) -> bool:
        """Whether the agent was heard in the last 0.1 s."""
        return bool(sounds(bytes(self._received[-RATE // 5 :])))

    async def hears_the_agent(self, *, for_seconds: float = 0.0) -> None:
        """Wait until the agent has begun to speak, and has gone on for so long."""
        await self.until(self.agent_sounds)
        await self.listens(for_seconds)

    async def listens(self, seconds: float) -> None:
        """Wait for so much audio."""
        until = self.now + seconds
        await self.until(lambda: self.now >= until)

    async def run(self, frames: rtc.AudioStream) -> None:
        """Exchange frame for frame."""
        async for event in frames:
            out = self._unsaid.popleft() if self._unsaid else None
            self._received += bytes(event.frame.data)
            self._sent += out or bytes(2 * FRAME)
            self.changed()
            if out is not None or self._source.queued_duration <= MAX_QUEUED:
                await self._source.capture_frame(rtc.AudioFrame(out or bytes(2 * FRAME), RATE, 1, FRAME))


async def record(texts: Iterable[str], tts: TTS | None = None) -> dict[str, bytes]:
    """Lines of a caller, spoken before the call so that speaking costs it no time.

    Args:
        tts: The voice; None: espeak.
    """
    async with tts or espeak.TTS(voice=VOICE, rate=150) as voice:
        return {text: await spoken(voice, text) for text in texts}


@asynccontextmanager
async def calling(server: RoomEndpoint, room_name: str, lines: dict[str, bytes]) -> AsyncIterator[Talker]:
    """Join as "caller", publish a microphone, and talk as soon as the agent's voice is there."""
    room = rtc.Room()
    track_came: asyncio.Future[rtc.Track] = asyncio.get_running_loop().create_future()

    def on_track(track: rtc.Track, *_: object) -> None:
        if not track_came.done():
            track_came.set_result(track)

    room.on("track_subscribed", on_track)
    await room.connect(server.url, token(server, room_name, "caller"))
    source = rtc.AudioSource(RATE, 1, queue_size_ms=200)
    talker = Talker(source, lines)
    talking: asyncio.Task[None] | None = None
    frames: rtc.AudioStream | None = None
    try:
        microphone = rtc.LocalAudioTrack.create_audio_track("microphone", source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await room.local_participant.publish_track(microphone, options)
        with anyio.fail_after(LIMIT):
            track = await track_came
        frames = rtc.AudioStream.from_track(track=track, sample_rate=RATE, num_channels=1, frame_size_ms=20)
        talking = asyncio.create_task(talker.run(frames))
        yield talker
    finally:
        with anyio.CancelScope(shield=True):
            if talking is not None:
                talking.cancel()
                await asyncio.gather(talking, return_exceptions=True)
            if frames is not None:
                await frames.aclose()
            await room.disconnect()
            await source.aclose()
