"""Vonage's answer webhook, answered with an NCCO.

Source: developer.vonage.com/en/voice/voice-api/guides/websockets (the answer), and signed webhooks: a JWT of HS256 with
the signature secret in `Authorization`, whose claim `payload_hash` is the SHA-256 of the body.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from vivavoce.agents.transports.media_stream.vonage.wire import CALL_ID, CALLED_NUMBER, NUMBER, VonageWire
from vivavoce.agents.transports.media_stream.webhook import (
    TOKEN,
    Answer,
    IncomingCall,
    Webhook,
    WebhookError,
    WebRequest,
    is_same,
)
from vivavoce.agents.transports.media_stream.wire import MediaWire

OLDEST = 300.0
"""Seconds for which a signature holds."""
CONTENT_TYPE = "audio/l16;rate=16000"


class VonageWebhook(Webhook):
    """Checks by the account's signature secret."""

    name = "vonage"

    def check(self, request: WebRequest) -> None:
        import jwt

        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                options={"require": ["iat", "jti"], "verify_iat": False, "verify_exp": False, "verify_aud": False},
            )
            signed_at, request_id = float(claims["iat"]), str(claims["jti"])
        except (jwt.InvalidTokenError, TypeError, ValueError) as error:
            raise self._forged() from error
        if kind.lower() != "bearer":
            raise self._forged()
        if request.body and not is_same(str(claims.get("payload_hash")), hashlib.sha256(request.body).hexdigest()):
            raise WebhookError("the body is not the one that Vonage signed")
        if abs(self._now() - signed_at) > OLDEST:
            raise WebhookError("the request was signed more than 5 minutes ago: it is repeated, or a clock is wrong")
        self._take_once(request_id)

    def call(self, request: WebRequest) -> IncomingCall:
        fields: dict[str, Any] = dict(request.query())
        if request.body:
            try:
                found = json.loads(request.body)
            except ValueError as error:
                raise WebhookError("needed a body in JSON, got something else") from error
            fields = found if isinstance(found, dict) else {}
        if not fields.get("uuid"):
            raise WebhookError("needed a uuid, got a request without one; set this address as the answer URL")
        number, called = str(fields.get("from") or ""), str(fields.get("to") or "")
        return IncomingCall(call_id=str(fields["uuid"]), number=number, called_number=called)

    def answer(self, call: IncomingCall, stream_url: str, token: str) -> Answer:
        headers = {TOKEN: token, CALL_ID: call.call_id, NUMBER: call.number, CALLED_NUMBER: call.called_number}
        endpoint = {"type": "websocket", "uri": stream_url, "content-type": CONTENT_TYPE, "headers": headers}
        return Answer(content_type="application/json", body=json.dumps([{"action": "connect", "endpoint": [endpoint]}]))

    def wire(self) -> MediaWire:
        return VonageWire()
