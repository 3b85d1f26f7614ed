"""Tokens with which a worker joins a room itself, as a dispatched job would."""

from __future__ import annotations

from datetime import timedelta

from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.options import AgentPermissions

TOKEN_HOURS = 6

AGENT_NAME = "lk.agent_name"
"""Attribute with which a server marks an agent: the name of its worker."""


def agent_token(
    account: Credentials, room: str, identity: str, permissions: AgentPermissions, *, agent_name: str | None = None
) -> str:
    """Return a token with which `identity` joins `room` as an agent, like the token of a dispatched job.

    Args:
        agent_name: The name of the worker, with which a server marks the agents that it dispatches; None: no mark.
    """
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
    token = api.AccessToken(account.api_key, account.api_secret).with_identity(identity).with_kind("agent")
    if agent_name is not None:
        token = token.with_attributes({AGENT_NAME: agent_name})
    return token.with_ttl(timedelta(hours=TOKEN_HOURS)).with_grants(grants).to_jwt()


def agent_identity(template: str | None, *, job_id: str, room: str) -> str:
    """Return the identity of an agent in a room.

    Args:
        template: `WorkerOptions.identity`, or an application's answer to the request.
        job_id: The job's id; the id of the lost dispatch in whose place the job was made.
        room: The room's name.
    """
    return (template or "agent-{job_id}").replace("{job_id}", job_id).replace("{room}", room)


def identity_in(token: str) -> str:
    """Return the identity that a token gives; empty if it is none."""
    import jwt

    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        return ""
    return str(claims.get("sub", ""))
