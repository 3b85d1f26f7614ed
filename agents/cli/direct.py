"""Direct jobs: an agent joins one named room without being dispatched there, by a token that we make ourselves."""

from __future__ import annotations

from datetime import timedelta

from vivavoce.agents.cli.demo.place import Place
from vivavoce.agents.worker.options import AgentPermissions

TOKEN_HOURS = 6


def agent_token(place: Place, room: str, identity: str, permissions: AgentPermissions) -> str:
    """Return a token with which `identity` joins `room` as an agent, as a dispatched job's would."""
    from livekit import api

    grants = api.VideoGrants(
        room_join=True,
        room=room,
        agent=True,
        can_publish=permissions.can_publish,
        can_subscribe=permissions.can_subscribe,
        can_publish_data=permissions.can_publish_data,
        can_update_own_metadata=permissions.can_update_metadata,
        hidden=permissions.hidden,
    )
    token = api.AccessToken(place.api_key, place.api_secret).with_identity(identity).with_kind("agent")
    return token.with_ttl(timedelta(hours=TOKEN_HOURS)).with_grants(grants).to_jwt()
