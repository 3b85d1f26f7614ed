"""Access tokens: verifying them, and the texts of refusals, which developers read."""

from __future__ import annotations

import datetime

import jwt
from google.protobuf.json_format import ParseError
from livekit.api import AccessToken, TokenVerifier, VideoGrants
from livekit.api.access_token import Claims

from vivavoce.agents.dev_room.options import RoomServerOptions


class Refused(Exception):
    """A request that is refused.

    Args:
        status: HTTP status.
        text: The need, the given value and the remedy; never a token or a secret.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Authority:
    """Verifies and makes tokens with the room's one key pair."""

    def __init__(self, options: RoomServerOptions) -> None:
        self._key = options.api_key
        self._secret = options.api_secret
        self._verifier = TokenVerifier(options.api_key, options.api_secret)

    def verify(self, authorization: str, query_token: str) -> Claims:
        """Return the claims of the token in the header, or else in the query.

        Raises:
            Refused: 401 with a text that names the fault.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else query_token
        if not token:
            raise Refused(401, "no access token: send 'Authorization: Bearer <token>' or ?access_token=<token>")
        try:
            stated = jwt.decode(token, options={"verify_signature": False})
        except jwt.PyJWTError:
            raise Refused(
                401, f"the access token is not a JWT ({len(token)} characters): make one with livekit.api.AccessToken"
            ) from None
        if stated.get("iss") != self._key:
            raise Refused(
                401,
                f"the access token was made with the API key {str(stated.get('iss'))[:64]!r}, "
                f"but this room's key is {self._key!r}: use the key and secret that the room printed",
            )
        try:
            return self._verifier.verify(token)
        except jwt.PyJWTError as exc:
            raise Refused(401, self._explain(exc, stated)) from None
        except (TypeError, AttributeError, ValueError, ParseError):
            raise Refused(
                401, "the access token's claims are malformed: make it with livekit.api.AccessToken"
            ) from None

    def _explain(self, error: jwt.PyJWTError, stated: dict[str, object]) -> str:
        match error:
            case jwt.InvalidSignatureError():
                return (
                    f"the access token was signed with another API secret than the one of key {self._key!r}: "
                    "use the key and secret that the room printed"
                )
            case jwt.ExpiredSignatureError():
                return f"the access token expired at {_utc(stated.get('exp'))}: make a new one"
            case jwt.ImmatureSignatureError():
                return f"the access token is not valid before {_utc(stated.get('nbf'))}: check the clocks"
            case jwt.MissingRequiredClaimError():
                return f"the access token lacks the claim {error.claim!r}: make it with livekit.api.AccessToken"
        return f"the access token is invalid ({type(error).__name__}): make it with livekit.api.AccessToken"

    def verify_join(self, authorization: str, query_token: str) -> Claims:
        """Return the claims of a token that lets its holder into one room.

        Raises:
            Refused: 401, as `verify()`, or because a grant is missing.
        """
        claims = self.verify(authorization, query_token)
        video = claims.video
        if video is None or not video.room_join:
            raise Refused(401, "the access token lacks the grant roomJoin: VideoGrants(room_join=True, room='…')")
        if not video.room or not claims.identity:
            missing = "a room" if not video.room else "an identity"
            raise Refused(401, f"the access token names no {missing.split()[1]}: a join needs {missing} in it")
        return claims

    def agent_token(
        self, *, room: str, identity: str, name: str, metadata: str, attributes: dict[str, str], grants: VideoGrants
    ) -> str:
        """Make the token with which an agent joins the room of its job; valid for one hour."""
        token = (
            AccessToken(self._key, self._secret)
            .with_identity(identity)
            .with_name(name)
            .with_kind("agent")
            .with_metadata(metadata)
            .with_attributes(attributes)
            .with_ttl(datetime.timedelta(hours=1))
        )
        grants.room_join, grants.room, grants.agent = True, room, True
        return token.with_grants(grants).to_jwt()


def _utc(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "an unknown time"
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "an unknown time"
