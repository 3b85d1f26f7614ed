"""side_room: a second LiveKit room of the agent, for the length of a block."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.server_access import Credentials
from vivavoce.pipelines.core.errors import RoomError, describe

if TYPE_CHECKING:
    from livekit import rtc

logger = logging.getLogger(__name__)

JOIN_LIMIT = 10.0
LEAVE_LIMIT = 3.0
TOKEN_TTL = 600.0
"""Seconds within which the agent must join; the server renews the token of a participant that is there."""


@asynccontextmanager
async def side_room(credentials: Credentials, name: str, identity: str) -> AsyncIterator[rtc.Room]:
    """Join a room as an agent of that identity; at the end the room is deleted, and whoever is in it hung up.

    Raises:
        RoomError: It could not be joined.
    """
    from livekit import api, rtc

    from vivavoce.agents.transports.livekit.hangup import disconnect

    grants = api.VideoGrants(room_join=True, room=name, can_update_own_metadata=True)
    token = api.AccessToken(credentials.api_key, credentials.api_secret).with_identity(identity).with_kind("agent")
    token = token.with_grants(grants).with_ttl(timedelta(seconds=TOKEN_TTL))
    room = rtc.Room()
    try:
        try:
            # Cancelled half-way, the SDK would go on to join, and leave a participant without an owner behind.
            with anyio.fail_after(JOIN_LIMIT, shield=True):
                await room.connect(credentials.url, token.to_jwt())
        except TimeoutError:
            raise RoomError(f"the second room could not be joined within {JOIN_LIMIT:g} s") from None
        except rtc.ConnectError as error:
            raise RoomError(f"the second room could not be joined: {describe(error, quotes_foreign=True)}") from None
        yield room
    finally:
        with anyio.CancelScope(shield=True):  # its own limit is 5 s
            try:
                await disconnect(credentials, name, "", whom="room")
            except RoomError as error:
                logger.warning("the second room of a transfer could not be deleted: %s", error)
        with anyio.move_on_after(LEAVE_LIMIT, shield=True):
            await room.disconnect()
