"""FarEnd: the agent's end of a call: its presence in the room, and its voices as one sequence of 20 ms frames."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.caller.line import FRAME_SAMPLES, SAMPLE_RATE
from vivavoce.agents.caller.mixer import Voice, VoiceMixer
from vivavoce.agents.job import FAILURE
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from livekit import rtc

logger = logging.getLogger(__name__)

BACKGROUND_TRACK = "background_audio"
"""Name of an agent's second track, which is no voice."""
CLOSE_LIMIT = 1.0
HANG_UPS = {"room_deleted": "the room was deleted", "participant_removed": "the caller was removed from the room"}
"""The ways in which an agent ends a call, as the caller sees them: reason of the room's end → text."""


class FarEnd:
    """Watches a room from before it connects; `run()` beside the call feeds the voices to `next_frame()`.

    An agent may hand the call over to another one, as `vivavoce dev` does at a save: every agent's voice is heard, and
    the far end is present as long as any participant that had a voice is in the room. The frames that arrive are the
    call's clock; if none come, because no agent is there or a voice stalls, time continues in silence.
    """

    def __init__(self, room: rtc.Room) -> None:
        self.ended = ""
        """How the room ended before the caller left it; empty while it has not."""
        self.is_lost = False
        """Whether it ended by no act of the agent's."""
        self.failure = ""
        """The error of the agent's code, if it shows one: no agent comes any more."""
        self._room = room
        self._speakers: set[str] = set()
        """Identities in the room that have had a voice."""
        self._voices: dict[str, tuple[str, Voice]] = {}
        """Each audio track's identity and voice, by its sid."""
        self._mixer = VoiceMixer()
        self._came = anyio.Event()
        # Unbounded: the SDK's callback cannot wait, and there is an item for each track.
        self._subscribed, self._to_follow = anyio.create_memory_object_stream["rtc.RemoteAudioTrack"](math.inf)
        room.on("track_subscribed", self._on_track)
        room.on("track_unsubscribed", self._on_track_gone)
        room.on("participant_connected", self.look_for_failure)
        room.on("participant_attributes_changed", lambda _, participant: self.look_for_failure(participant))
        room.on("participant_disconnected", self._on_participant_gone)
        room.on("disconnected", self._on_closed)

    @property
    def is_there(self) -> bool:
        """Whether a participant that has had a voice is in the room."""
        return bool(self._speakers)

    async def come(self) -> None:
        """Wait until the agent's voice is there, or its code has failed, or the room is closed."""
        await self._came.wait()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen to every voice, until cancelled."""
        self._mixer.start()
        task_status.started()
        async with self._subscribed, self._to_follow, anyio.create_task_group() as tasks:
            async for track in self._to_follow:
                if track.sid in self._voices:  # if it has not gone meanwhile
                    tasks.start_soon(self._follow, track, self._voices[track.sid][1])

    def close(self) -> None:
        """Forget the tracks that no `run()` has followed; after the room."""
        self._subscribed.close()
        self._to_follow.close()

    async def next_frame(self) -> AudioFrame:
        """Return the next 20 ms of the agent, when they are due."""
        return await self._mixer.next_frame()

    def look_for_failure(self, participant: rtc.Participant) -> None:
        """Note the error that a participant shows, if it is an agent."""
        from livekit import rtc

        error = participant.attributes.get(FAILURE)
        if error and participant.kind == rtc.ParticipantKind.PARTICIPANT_KIND_AGENT:
            self.failure = error
            self._came.set()

    async def _follow(self, track: rtc.RemoteAudioTrack, voice: Voice) -> None:
        from livekit import rtc

        stream = rtc.AudioStream.from_track(
            track=track, sample_rate=SAMPLE_RATE, num_channels=1, frame_size_ms=round(1000 * FRAME_SECONDS)
        )
        try:
            with voice.listening:
                async for event in stream:
                    if event.frame.samples_per_channel == FRAME_SAMPLES:
                        self._mixer.take(voice, AudioFrame(bytes(event.frame.data), SAMPLE_RATE))
        finally:
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
            return  # another person: if a participant is marked as an agent, only agents are the far end
        self._speakers.add(participant.identity)
        self._voices[track.sid] = participant.identity, Voice()
        self._mixer.add(self._voices[track.sid][1])
        self._subscribed.send_nowait(track)
        self._came.set()

    def _on_track_gone(
        self, track: rtc.Track, publication: rtc.RemoteTrackPublication, participant: rtc.RemoteParticipant
    ) -> None:
        self._forget(publication.sid)

    def _on_participant_gone(self, participant: rtc.RemoteParticipant) -> None:
        for sid in [sid for sid, (identity, _) in self._voices.items() if identity == participant.identity]:
            self._forget(sid)
        self._speakers.discard(participant.identity)

    def _on_closed(self, reason: rtc.DisconnectReason.ValueType) -> None:
        from livekit import rtc

        name = rtc.DisconnectReason.Name(reason).lower()
        self.is_lost = name not in HANG_UPS
        self.ended = HANG_UPS.get(name, f"the connection to the room was lost ({name})")
        self._speakers.clear()
        for sid in list(self._voices):
            self._forget(sid)
        self._came.set()

    def _forget(self, sid: str) -> None:
        if sid in self._voices:
            _, voice = self._voices.pop(sid)
            self._mixer.remove(voice)
