"""Effects of the server API on a participant: changing its permissions, and muting its tracks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livekit.protocol import models, rtc

from vivavoce.agents.dev_room.info import may_publish

if TYPE_CHECKING:
    from vivavoce.agents.dev_room.participant import Participant
    from vivavoce.agents.dev_room.room import Room
    from vivavoce.agents.dev_room.tracks import PublishedTrack


def mute_track(room: Room, publisher: Participant, track: PublishedTrack, *, muted: bool) -> None:
    """Mute a track by request of another side; its publisher receives a message and mutes its side too."""
    if track.info.muted != muted:
        track.info.muted = muted
        mute = rtc.MuteTrackRequest(sid=track.info.sid, muted=muted)
        publisher.send(rtc.SignalResponse(mute=mute))
        room.announce(publisher)


def set_permission(room: Room, participant: Participant, permission: models.ParticipantPermission) -> None:
    """Change the permissions of a participant; actions that it may no longer do end now."""
    grants = participant.grants
    grants.can_subscribe, grants.can_publish = permission.can_subscribe, permission.can_publish
    grants.can_publish_data = permission.can_publish_data
    grants.can_update_own_metadata = permission.can_update_metadata
    grants.can_publish_sources = [models.TrackSource.Name(source).lower() for source in permission.can_publish_sources]
    is_agent = participant.info.permission.agent
    participant.info.permission.CopyFrom(permission)
    participant.info.permission.agent = is_agent or permission.agent
    for track in [t for t in participant.tracks.values() if not may_publish(grants, t.info.source)]:
        room.unpublish(participant, track)
    if not grants.can_subscribe:
        for sid in list(participant.subscriptions):
            participant.unsubscribe(sid)
    elif participant.auto_subscribe:
        for other in room.others(participant):
            for track in other.tracks.values():
                participant.subscribe(track)
    participant.ask_for_offer()
