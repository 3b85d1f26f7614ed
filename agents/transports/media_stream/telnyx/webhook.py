"""Telnyx's webhook for an incoming call of a TeXML application, answered in TeXML.

Source: telnyx 4.189.0, `webhooks.unwrap` (the signature: Ed25519 over the time and the body), and
developers.telnyx.com/docs/voice/programmable-voice/media-streaming (the answer). Not tried with Telnyx itself: that
`<Stream>` there takes `<Parameter>`, which `start` shows as `custom_parameters`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from xml.sax.saxutils import quoteattr

from vivavoce.agents.transports.media_stream.telnyx.wire import TelnyxWire
from vivavoce.agents.transports.media_stream.webhook import (
    TOKEN,
    Answer,
    IncomingCall,
    Webhook,
    WebhookError,
    WebRequest,
    parameter,
    xml,
)
from vivavoce.agents.transports.media_stream.wire import MediaWire
from vivavoce.pipelines.core.errors import ConfigurationError

SIGNATURE, TIME = "telnyx-signature-ed25519", "telnyx-timestamp"
OLDEST = 300.0
"""Seconds for which a signature holds."""


class TelnyxWebhook(Webhook):
    """Checks by the account's public key.

    Raises:
        ConfigurationError: The key is none, or the package `cryptography` is missing.
    """

    name = "telnyx"

    def __init__(self, secret: str, now: Callable[[], float]) -> None:
        super().__init__(secret, now)
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            raise ConfigurationError("Telnyx's signatures need cryptography: pip install cryptography") from error
        try:
            self._key = Ed25519PublicKey.from_public_bytes(base64.b64decode(secret, validate=True))
        except ValueError as error:
            raise ConfigurationError(
                "TELNYX_PUBLIC_KEY must be the public key of your account at Telnyx, 32 bytes in base64, "
                "got another text"
            ) from error

    def check(self, request: WebRequest) -> None:
        from cryptography.exceptions import InvalidSignature

        time = request.headers.get(TIME, "")
        if not (time.isascii() and time.isdecimal() and len(time) < 12):
            raise self._forged()
        if abs(self._now() - int(time)) > OLDEST:
            raise WebhookError("the request was signed more than 5 minutes ago: it is repeated, or a clock is wrong")
        try:
            given = base64.b64decode(request.headers.get(SIGNATURE, ""), validate=True)
            self._key.verify(given, f"{time}|".encode() + request.body)
        except (InvalidSignature, binascii.Error, ValueError) as error:
            raise self._forged() from error
        self._take_once(given.hex())

    def call(self, request: WebRequest) -> IncomingCall:
        fields = dict(request.form())
        if not fields.get("CallSid"):
            raise WebhookError("needed a CallSid, got a request without one; use a TeXML application at Telnyx")
        return IncomingCall(
            call_id=fields["CallSid"], number=fields.get("From", ""), called_number=fields.get("To", "")
        )

    def answer(self, call: IncomingCall, stream_url: str, token: str) -> Answer:
        form = 'bidirectionalMode="rtp" bidirectionalCodec="PCMU"'
        return xml(f"<Connect><Stream url={quoteattr(stream_url)} {form}>{parameter(TOKEN, token)}</Stream></Connect>")

    def wire(self) -> MediaWire:
        return TelnyxWire()
