"""FarEnd: the agent's end of a call: whether it is in the room, and its voices as one row of 20 ms frames."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.cli.caller.line import FRAME_SAMPLES, SAMPLE_RATE
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from livekit import rtc

logger = logging.getLogger(__name__)

BACKGROUND_TRACK = "background_audio"
"""What agents call a second track, which is no voice."""
STALL = 0.5
"""Seconds without a frame after which time goes on without frames."""
LATE = 0.05
"""Seconds for which frames that have arrived may be on their way through a busy event loop."""
LEAD_LIMIT = 0.1
"""Seconds without a frame after which another voice gives the beat."""
MAX_WAITING = 5
"""Frames of a voice that wait to be mixed into the one that gives the beat."""
CLOSE_LIMIT = 1.0


@dataclass(slots=True, eq=False)
class Voice:
    """One audio track of a participant."""

    identity: str
    waiting: deque[AudioFrame] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    listening: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class FarEnd:
    """Watches a room from before it connects; `run()` beside the call brings the voices to `next_frame()`.

    An agent may hand the call over to another one, as `vivavoce dev` does at a save: every agent's voice is heard, and
    the far end is there for as long as any participant that had a voice is. The frames that arrive are the call's
    clock; where none come, because nobody is there or a voice stalls, time goes on in silence.
    """

    def __init__(self, room: rtc.Room) -> None:
        self.closed: rtc.DisconnectReason.ValueType | None = None
        """Why the room was left before the caller left it."""
        self._room = room
        self._speakers: set[str] = set()
        """Identities that are in the room and have had a voice in it."""
        self._voices: dict[str, Voice] = {}
        self._lead: Voice | None = None
        self._lead_at = -math.inf
        self._frames: deque[AudioFrame] = deque()
        self._until = 0.0
        """Up to when frames were given out, by the event loop's clock."""
        self._has_stalled = False
        self._news = anyio.Event()
        # Unbounded: the SDK's callback cannot wait, and there is an item for each track.
        self._subscribed, self._to_follow = anyio.create_memory_object_stream["rtc.RemoteAudioTrack"](math.inf)
        room.on("track_subscribed", self._on_track)
        room.on("track_unsubscribed", self._on_track_gone)
        room.on("participant_disconnected", self._on_participant_gone)
        room.on("disconnected", self._on_closed)

    @property
    def is_there(self) -> bool:
        """Whether anybody is in the room who has had a voice."""
        return bool(self._speakers)

    async def come(self) -> None:
        """Wait until the agent's voice is there, or the room is closed."""
        while not self._speakers and self.closed is None:
            await self._wait()

    async def run(self) -> None:
        """Listen to every voice, until cancelled."""
        self._until = anyio.current_time()
        async with self._subscribed, self._to_follow, anyio.create_task_group() as tasks:
            async for track in self._to_follow:
                self._listen(tasks, track)

    async def next_frame(self) -> AudioFrame:
        """Return the next 20 ms of the agent, when they are due: what arrived, or silence where nothing did."""
        while not self._frames:
            due = self._until + (FRAME_SECONDS if self._has_stalled else STALL)
            with anyio.move_on_at(due) as limit:
                await self._wait()
            if not limit.cancelled_caught:
                continue
            if not self._has_stalled:
                with anyio.move_on_after(LATE):
                    await self._wait()
                self._has_stalled = not self._frames
                continue
            self._until += FRAME_SECONDS
            return AudioFrame.silence(FRAME_SECONDS, SAMPLE_RATE)
        self._has_stalled = False
        self._until = anyio.current_time()
        return self._frames.popleft()

    def take(self, voice: Voice, frame: AudioFrame) -> None:
        """Bring 20 ms of a voice: the one that came first gives the beat, and the others are mixed into it."""
        now = anyio.current_time()
        if self._lead is None or (voice is not self._lead and now - self._lead_at > LEAD_LIMIT):
            self._lead = voice
            voice.waiting.clear()
        if voice is not self._lead:
            voice.waiting.append(frame)
            return
        self._lead_at = now
        others = [other.waiting.popleft() for other in self._voices.values() if other.waiting]
        self._frames.append(_mixed([frame, *others]) if others else frame)
        self._tell()

    def _listen(self, tasks: TaskGroup, track: rtc.RemoteAudioTrack) -> None:
        """Follow a track, unless it has gone meanwhile."""
        if (voice := self._voices.get(track.sid)) is not None:
            tasks.start_soon(self._follow, track, voice)

    async def _follow(self, track: rtc.RemoteAudioTrack, voice: Voice) -> None:
        from livekit import rtc

        stream = rtc.AudioStream.from_track(
            track=track, sample_rate=SAMPLE_RATE, num_channels=1, frame_size_ms=round(1000 * FRAME_SECONDS)
        )
        try:
            with voice.listening:
                async for event in stream:
                    if event.frame.samples_per_channel == FRAME_SAMPLES:
                        self.take(voice, AudioFrame(bytes(event.frame.data), SAMPLE_RATE))
        finally:
            if self._lead is voice:
                self._lead = None
            with anyio.move_on_after(CLOSE_LIMIT, shield=True) as limit:
                await stream.aclose()
            if limit.cancelled_caught:
                logger.warning("a track of the agent's did not end within %s s", CLOSE_LIMIT)

    def _on_track(
        self, track: rtc.Track, publication: rtc.RemoteTrackPublication, participant: rtc.RemoteParticipant
    ) -> None:
        from livekit import rtc

        if not isinstance(track, rtc.RemoteAudioTrack) or publication.name == BACKGROUND_TRACK:
            return
        kind = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
        has_agents = any(other.kind == kind for other in self._room.remote_participants.values())
        if has_agents and participant.kind != kind:
            return  # another person: where an agent says that it is one, only agents are the far end
        self._speakers.add(participant.identity)
        self._voices[track.sid] = Voice(participant.identity)
        self._subscribed.send_nowait(track)
        self._tell()

    def _on_track_gone(
        self, track: rtc.Track, publication: rtc.RemoteTrackPublication, participant: rtc.RemoteParticipant
    ) -> None:
        self._forget(publication.sid)

    def _on_participant_gone(self, participant: rtc.RemoteParticipant) -> None:
        for sid in [sid for sid, voice in self._voices.items() if voice.identity == participant.identity]:
            self._forget(sid)
        self._speakers.discard(participant.identity)
        self._tell()

    def _on_closed(self, reason: rtc.DisconnectReason.ValueType) -> None:
        self.closed = reason
        self._speakers.clear()
        self._tell()

    def _forget(self, sid: str) -> None:
        voice = self._voices.pop(sid, None)
        if voice is not None:
            voice.listening.cancel()

    async def _wait(self) -> None:
        self._news = anyio.Event()
        await self._news.wait()

    def _tell(self) -> None:
        self._news.set()


def _mixed(frames: Sequence[AudioFrame]) -> AudioFrame:
    import numpy as np

    total = np.sum([frame.to_numpy().reshape(-1) for frame in frames], axis=0, dtype=np.int32)
    return AudioFrame(np.clip(total, -32768, 32767).astype(np.int16).tobytes(), SAMPLE_RATE)
