"""ServerAccess: the server API and the tokens that a job's code uses, by the key and secret of the job's server."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, WorkerError

if TYPE_CHECKING:
    from livekit.api import LiveKitAPI, VideoGrants

TOKEN_TTL = 3600.0
MAX_TOKEN_TTL = 365 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Address of a LiveKit server, and the key and secret for it."""

    url: str
    """With scheme ws or wss, without a trailing slash."""
    api_key: str
    api_secret: str = field(repr=False)


class ServerAccess:
    """Access to the server of one room.

    Args:
        credentials: URL, key and secret; None: each use raises.
        room: The room's name.
    """

    def __init__(self, credentials: Credentials | None, room: str) -> None:
        self.credentials = credentials
        self._room = room
        self._api: LiveKitAPI | None = None
        self._is_closed = False

    def api(self) -> LiveKitAPI:
        """Return the client of the server API, made on first use; call it on the event loop.

        Raises:
            ConfigurationError: There are no credentials.
            WorkerError: It has been closed.
        """
        account = self._account("the server API")
        if self._is_closed:
            raise WorkerError("the server API is closed with its job; afterwards make a livekit.api.LiveKitAPI")
        if self._api is None:
            from livekit import api

            self._api = api.LiveKitAPI(account.url, account.api_key, account.api_secret)
        return self._api

    def participant_token(
        self,
        identity: str,
        *,
        name: str,
        metadata: str,
        attributes: Mapping[str, str],
        grants: VideoGrants | None,
        ttl: float,
    ) -> str:
        """Return a token; see `JobContext.participant_token`."""
        from livekit import api

        account = self._account("a token for a participant")
        if grants is not None and not isinstance(grants, api.VideoGrants):
            raise ConfigurationError(f"grants must be livekit.api.VideoGrants(…) or None, got {shown(grants)}")
        given = grants or api.VideoGrants()
        if ttl > MAX_TOKEN_TTL:
            raise ConfigurationError(f"ttl must be at most {MAX_TOKEN_TTL:.0f} s (a year), got {ttl!r}")
        if not identity:
            raise ConfigurationError("a token needs the identity of a participant, got an empty one")
        if given.room not in ("", self._room):
            raise ConfigurationError(
                f"the token is for the job's room {self._room!r}, got grants for room {given.room!r}; leave `room` "
                "out, or make a token of another room with livekit.api.AccessToken"
            )
        token = api.AccessToken(account.api_key, account.api_secret).with_identity(identity)
        token = token.with_grants(replace(given, room=self._room, room_join=True)).with_ttl(timedelta(seconds=ttl))
        return token.with_name(name).with_metadata(metadata).with_attributes(dict(attributes)).to_jwt()

    async def aclose(self) -> None:
        """Close the client if it was made; nothing more is given."""
        self._is_closed = True
        if self._api is not None:
            await self._api.aclose()

    def _account(self, what: str) -> Credentials:
        if self.credentials is None:
            raise ConfigurationError(
                f"{what} needs a LiveKit server with an API key and secret, this job has none: set LIVEKIT_URL, "
                "LIVEKIT_API_KEY and LIVEKIT_API_SECRET for its worker (a console has no server)"
            )
        return self.credentials


def why_unreachable(error: Exception) -> str:
    """Return why a server could not be reached. aiohttp's own text names TLS settings for any URL."""
    from aiohttp import ClientConnectorError

    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return "no server answers there (connection refused)"
    said = error.strerror if isinstance(error, ClientConnectorError) else str(error)
    return said or str(error) or type(error).__name__
