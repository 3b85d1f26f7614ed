"""The server of an end-to-end test: its address and keys, and tokens for it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Literal

from livekit.api import AccessToken, VideoGrants
from livekit.protocol.room import RoomConfiguration


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomEndpoint:
    """A room server that runs for the tests."""

    url: str
    api_key: str
    api_secret: str = field(repr=False)
    kind: Literal["embedded", "livekit"]

    def token(
        self,
        identity: str,
        room: str,
        *,
        api_secret: str | None = None,
        ttl: float = 3600.0,
        grants: VideoGrants | None = None,
        agent: bool = False,
        config: RoomConfiguration | None = None,
    ) -> str:
        """Make a join token; `ttl` is seconds and may be negative."""
        token = AccessToken(self.api_key, api_secret or self.api_secret)
        token.with_identity(identity).with_ttl(datetime.timedelta(seconds=ttl))
        token.with_grants(grants or VideoGrants(room_join=True, room=room, can_update_own_metadata=True))
        if agent:
            token.with_kind("agent")
        if config is not None:
            token.with_room_config(config)
        return token.to_jwt()
