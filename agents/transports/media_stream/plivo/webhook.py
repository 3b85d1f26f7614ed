"""Plivo's webhook for an incoming call, answered in its XML.

Source: plivo 4.63.0, `utils/signature_v3` (the signature), and docs.plivo.com/docs/voice/xml/audiostream (the answer).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from vivavoce.agents.transports.media_stream.plivo.wire import CALLED_NUMBER, NUMBER, PlivoWire
from vivavoce.agents.transports.media_stream.webhook import (
    TOKEN,
    Answer,
    IncomingCall,
    Webhook,
    WebhookError,
    WebRequest,
    is_same,
    xml,
)
from vivavoce.agents.transports.media_stream.wire import MediaWire

SIGNATURE, NONCE = "x-plivo-signature-v3", "x-plivo-signature-v3-nonce"
LONGEST_CALL = 86400
"""Seconds of a stream."""


class PlivoWebhook(Webhook):
    """Checks by the account's auth token."""

    name = "plivo"

    def check(self, request: WebRequest) -> None:
        nonce = request.headers.get(NONCE, "")
        expected = signature(self._secret, request.method, request.url, request.query(), request.form(), nonce)
        given = request.headers.get(SIGNATURE, "").split(",")
        if not any(is_same(each.strip(), expected) for each in given):
            raise self._forged()
        self._take_once(nonce)

    def call(self, request: WebRequest) -> IncomingCall:
        fields = dict(request.form() or request.query())
        if not fields.get("CallUUID"):
            raise WebhookError("needed a CallUUID, got a request without one; set this address as the answer URL")
        return IncomingCall(
            call_id=fields["CallUUID"], number=fields.get("From", ""), called_number=fields.get("To", "")
        )

    def answer(self, call: IncomingCall, stream_url: str, token: str) -> Answer:
        # Only letters and digits may stand there: a number loses its plus.
        given = {TOKEN: token, NUMBER: _digits(call.number), CALLED_NUMBER: _digits(call.called_number)}
        headers = ",".join(f"{name}={value}" for name, value in given.items() if value)
        form = f'bidirectional="true" keepCallAlive="true" audioTrack="inbound" streamTimeout="{LONGEST_CALL}"'
        content = 'contentType="audio/x-mulaw;rate=8000"'  # its default is not the same on all of Plivo's pages
        return xml(f"<Stream {form} {content} extraHeaders={quoteattr(headers)}>{escape(stream_url)}</Stream>")

    def wire(self) -> MediaWire:
        return PlivoWire()


def signature(
    auth_token: str,
    method: str,
    url: str,
    query: Iterable[tuple[str, str]],
    form: Iterable[tuple[str, str]],
    nonce: str,
) -> str:
    """Return Plivo's signature, version 3."""
    base, _, _ = url.partition("?")
    fields = sorted(form) if method == "POST" else []
    sorted_query = "&".join(f"{name}={value}" for name, value in sorted(query))
    if sorted_query or fields:
        base += f"?{sorted_query}"
    if sorted_query and fields:
        base += "."
    base += "".join(f"{name}{value}" for name, value in fields)
    signed = f"{base}.{nonce}".encode("utf-8", "replace")  # a header may hold what is no text
    return base64.b64encode(hmac.new(auth_token.encode(), signed, hashlib.sha256).digest()).decode()


def _digits(number: str) -> str:
    return "".join(character for character in number if character.isascii() and character.isdecimal())
