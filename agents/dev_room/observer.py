"""Reports of the room to its participants: active speakers, and the quality of each connection."""

from __future__ import annotations

import anyio
from livekit.protocol import models, rtc

from vivavoce.agents.dev_room.participant import Participant
from vivavoce.agents.dev_room.room import Room
from vivavoce.pipelines.core.clock import LoopClock

SPEAKER_INTERVAL = 0.4
MIN_LOUD_PACKETS = 8
"""Loud packets of 20 ms in one interval that make a speaker: 40 %, as on a real server."""
QUALITY_INTERVAL = 5.0
MAX_STUN_SILENCE = 6.0
"""Clients check the path about every 2.5 s; after two missed checks it counts as lost."""
_SCORES = {models.EXCELLENT: 5.0, models.GOOD: 4.0, models.POOR: 2.0, models.LOST: 0.0}


class RoomObserver:
    """Watches one room until it is closed."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._speaking: dict[str, float] = {}
        self._told: dict[str, object] = {}
        """The websocket over which each participant, by sid, received the present speakers."""

    async def run(self) -> None:
        clock = LoopClock()
        next_quality = clock.now() + QUALITY_INTERVAL
        while not self._room.is_closed:
            await anyio.sleep(SPEAKER_INTERVAL)
            self._send_speakers()
            if clock.now() >= next_quality:
                next_quality += QUALITY_INTERVAL
                self._send_quality(clock.now())

    def _send_speakers(self) -> None:
        levels = {p.info.sid: _level(p) for p in self._room.participants.values()}
        changed = [
            models.SpeakerInfo(sid=sid, level=levels.get(sid, 0.0), active=levels.get(sid, 0.0) > 0)
            for sid in {*levels, *self._speaking}
            if levels.get(sid, 0.0) != self._speaking.get(sid, 0.0)
        ]
        self._speaking = {sid: level for sid, level in levels.items() if level > 0}
        everyone = [models.SpeakerInfo(sid=sid, level=level, active=level > 0) for sid, level in levels.items()]
        for participant in self._room.participants.values():
            # A participant that came, or came back, since the last change has missed all changes before.
            is_new = participant.link is not None and self._told.get(participant.info.sid) is not participant.link
            if speakers := everyone if is_new else changed:
                participant.send(rtc.SignalResponse(speakers_changed=rtc.SpeakersChanged(speakers=speakers)))
        self._told = {p.info.sid: p.link for p in self._room.participants.values()}

    def _send_quality(self, now: float) -> None:
        updates = [
            rtc.ConnectionQualityInfo(participant_sid=p.info.sid, quality=quality, score=_SCORES[quality])
            for p in self._room.participants.values()
            if p.peer is not None and p.info.state == models.ParticipantInfo.ACTIVE
            for quality in (_quality(p, now),)
        ]
        if updates:
            response = rtc.SignalResponse(connection_quality=rtc.ConnectionQualityUpdate(updates=updates))
            for participant in self._room.participants.values():
                participant.send(response)


def _level(participant: Participant) -> float:
    levels = [track.levels.take(MIN_LOUD_PACKETS) for track in participant.tracks.values() if not track.info.muted]
    return max(levels, default=0.0)


def _quality(participant: Participant, now: float) -> models.ConnectionQuality:
    assert participant.peer is not None
    seen = participant.peer.endpoint.last_seen
    if participant.link is None or seen is None or now - seen > MAX_STUN_SILENCE:
        return models.LOST
    loss = max((track.losses.take() for track in participant.tracks.values()), default=0.0)
    if loss < 0.02:
        return models.EXCELLENT
    return models.GOOD if loss < 0.08 else models.POOR
