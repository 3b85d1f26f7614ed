"""Disconnects participants from a LiveKit room, by the server's API."""

from __future__ import annotations

import logging

import anyio

from vivavoce.agents.server_access import Credentials
from vivavoce.agents.transports.options import Hangup
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, describe

logger = logging.getLogger(__name__)

LIMIT = 5.0
"""Seconds for the server to answer."""


def checked(credentials: Credentials | None) -> Credentials:
    """Return the credentials.

    Raises:
        ConfigurationError: There are none.
    """
    if credentials is None:
        raise ConfigurationError(
            "disconnecting a caller needs the server's API, but URL, API key and API secret are not all known: set "
            "LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET, or start the session in a worker's job"
        )
    return credentials


async def disconnect(credentials: Credentials, room: str, identity: str, *, whom: Hangup) -> None:
    """Disconnect a participant, or everybody; succeeds if the participant or the room is gone already.

    Raises:
        RoomError: The server refused it, or did not answer in time.
    """
    import aiohttp
    from livekit import api

    what = f"participant {identity!r} of room {room!r}" if whom == "participant" else f"everybody in room {room!r}"
    try:
        with anyio.fail_after(LIMIT):
            async with api.LiveKitAPI(credentials.url, credentials.api_key, credentials.api_secret) as server:
                if whom == "room":
                    await server.room.delete_room(api.DeleteRoomRequest(room=room))
                else:
                    await server.room.remove_participant(api.RoomParticipantIdentity(room=room, identity=identity))
    except api.TwirpError as error:
        if error.code == "not_found":
            logger.debug("%s was gone already", what)
            return
        raise RoomError(f"could not disconnect {what}: {credentials.url} answered {error.code}") from error
    except TimeoutError as error:
        raise RoomError(f"could not disconnect {what}: {credentials.url} did not answer within {LIMIT} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise RoomError(f"could not disconnect {what}: {describe(error, quotes_foreign=True)}") from error
