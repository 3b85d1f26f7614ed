"""Descriptions of participants: ids, the public description made from a token, Opus parameters."""

from __future__ import annotations

import secrets

from livekit.api import VideoGrants
from livekit.api.access_token import Claims
from livekit.protocol import models

from vivavoce.pipelines.core.clock import LoopClock


def new_sid(prefix: str) -> str:
    """Return an id, for example `PA_x1Y…`; clients check the prefix."""
    return f"{prefix}_{secrets.token_hex(6)}"


def new_info(claims: Claims, grants: VideoGrants, client: models.ClientInfo) -> models.ParticipantInfo:
    """Describe a participant as its token says, in the state JOINED."""
    is_agent = claims.kind == "agent" or bool(grants.agent)
    kind = "AGENT" if is_agent else claims.kind.upper()
    now = LoopClock().wall()
    return models.ParticipantInfo(
        sid=new_sid("PA"),
        identity=claims.identity,
        name=claims.name,
        metadata=claims.metadata,
        attributes=claims.attributes or {},
        state=models.ParticipantInfo.JOINED,
        kind=kind if kind in models.ParticipantInfo.Kind.keys() else "STANDARD",
        joined_at=int(now),
        joined_at_ms=int(now * 1000),
        client_protocol=client.client_protocol,
        capabilities=client.capabilities,
        permission=models.ParticipantPermission(
            can_subscribe=bool(grants.can_subscribe),
            can_publish=bool(grants.can_publish),
            can_publish_data=bool(grants.can_publish_data),
            can_update_metadata=bool(grants.can_update_own_metadata),
            hidden=bool(grants.hidden),
            agent=is_agent,
        ),
    )


def text_size(info: models.ParticipantInfo, name: str, metadata: str, attributes: dict[str, str]) -> int:
    """Return how many characters a description would have after a change."""
    merged = {**info.attributes, **attributes}
    return sum(len(k) + len(v) for k, v in merged.items()) + len(metadata) + len(name)


def may_publish(grants: VideoGrants, source: models.TrackSource) -> bool:
    """Return whether a participant may publish from a source, for example its microphone."""
    sources = grants.can_publish_sources
    return bool(grants.can_publish) and (not sources or models.TrackSource.Name(source).lower() in sources)


def receive_fmtp(info: models.TrackInfo) -> str:
    """Return the Opus parameters with which the room receives a published track."""
    fmtp = "minptime=10;useinbandfec=1"
    if not info.disable_dtx:
        fmtp += ";usedtx=1"
    return fmtp + (";stereo=1" if info.stereo else "")
