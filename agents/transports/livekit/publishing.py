"""Publishing of an agent's audio track in a room, and its end."""

from __future__ import annotations

import logging

import anyio
from livekit import rtc
from livekit.rtc.participant import PublishTrackError, UnpublishTrackError

from vivavoce.pipelines.core.errors import RoomError

logger = logging.getLogger(__name__)

PUBLISH_LIMIT = 10.0
UNPUBLISH_LIMIT = 2.0


async def publish(room: rtc.Room, track: rtc.LocalAudioTrack) -> rtc.LocalTrackPublication:
    """Publish an audio track as a microphone.

    Raises:
        RoomError: The room refused it, or did not take it in time.
    """
    permissions = room.local_participant.permissions
    if permissions.ByteSize() and not permissions.can_publish:  # the SDK would wait for its limit; empty: unknown
        raise RoomError("the agent's token does not let it publish its audio track; grant canPublish")
    options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
    try:
        with anyio.fail_after(PUBLISH_LIMIT):
            return await room.local_participant.publish_track(track, options)
    except TimeoutError:
        raise RoomError(
            f"the room did not take the agent's audio track within {PUBLISH_LIMIT} s; look whether "
            "its token grants the microphone as a source and whether the server is reachable by UDP or TCP"
        ) from None
    except PublishTrackError as error:
        raise RoomError(f"the room refused the agent's audio track: {error.message}") from error


async def unpublish(room: rtc.Room, publication: rtc.LocalTrackPublication | None) -> None:
    """Take the track of that publication back, if the room is still there; its failure is in the log."""
    if publication is None or not room.isconnected():
        return
    with anyio.move_on_after(UNPUBLISH_LIMIT, shield=True) as limit:
        try:
            await room.local_participant.unpublish_track(publication.sid)
        except UnpublishTrackError as error:
            logger.warning("the agent's track could not be unpublished: %s", error.message)
    if limit.cancelled_caught:
        logger.warning("the room did not confirm within %s s that the track is unpublished", UNPUBLISH_LIMIT)
