"""avatar_token: the token with which an avatar's process joins the agent's room."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from vivavoce.agents.current_job import server_credentials
from vivavoce.pipelines.core.checks import check_number, check_text
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError

if TYPE_CHECKING:
    from livekit import rtc

ON_BEHALF = "lk.publish_on_behalf"
"""Attribute of LiveKit: the identity of the agent whose audio the participant publishes. Clients show both as one."""


def avatar_token(identity: str, *, room: rtc.Room, name: str = "", ttl: float = 3600.0) -> str:
    """Return a token for an avatar that speaks for the agent of this room.

    The key is the job's; outside of a job, LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET give it.

    Args:
        identity: As `AvatarOptions.identity`.
        room: The agent's, connected.
        name: Shown to the other participants.
        ttl: Seconds within which the avatar must join.
    Raises:
        ConfigurationError: There is no key, or an argument is of another kind.
        RoomError: The room is not connected.
    """
    from livekit import api

    check_text("identity", identity)
    if not identity.strip():
        raise ConfigurationError("a token needs the identity of the avatar's participant, got an empty one")
    check_number("ttl", ttl, above=0, unit="s")
    if not room.isconnected():
        raise RoomError("the token of an avatar names the agent; await ctx.connect() or room.connect(url, token) first")
    credentials = server_credentials()
    if credentials is None:
        raise ConfigurationError(
            "the token of an avatar needs the server's key: set LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET, "
            "or call avatar_token() in a worker's job"
        )
    agent = room.local_participant.identity
    grants = api.VideoGrants(room_join=True, room=room.name, can_update_own_metadata=True)
    token = api.AccessToken(credentials.api_key, credentials.api_secret).with_identity(identity).with_name(name)
    token = token.with_kind("agent").with_attributes({ON_BEHALF: agent}).with_grants(grants)
    return token.with_ttl(timedelta(seconds=ttl)).to_jwt()
