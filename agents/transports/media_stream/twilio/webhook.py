"""Twilio's webhook for an incoming call, answered in TwiML.

Source: twilio.com/docs/usage/security (the signature), twilio.com/docs/voice/twiml/stream (the answer), and twilio
9.13.0, `request_validator`: it tries the address with and without its port.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit
from xml.sax.saxutils import quoteattr

from vivavoce.agents.transports.media_stream.twilio.wire import CALLED_NUMBER, NUMBER, TwilioWire
from vivavoce.agents.transports.media_stream.webhook import (
    TOKEN,
    Answer,
    IncomingCall,
    Webhook,
    WebhookError,
    WebRequest,
    is_same,
    parameter,
    xml,
)
from vivavoce.agents.transports.media_stream.wire import MediaWire

SIGNATURE = "x-twilio-signature"
PORTS = {"https": 443, "wss": 443, "http": 80, "ws": 80}


class TwilioWebhook(Webhook):
    """Checks by the account's auth token."""

    name = "twilio"

    def check(self, request: WebRequest) -> None:
        fields = request.form()
        self._check(request, fields)
        expected = dict(request.query()).get("bodySHA256")
        if expected is not None and not is_same(expected, hashlib.sha256(request.body).hexdigest()):
            raise WebhookError("the body is not the one that Twilio signed")
        if not fields and request.body and expected is None:
            raise WebhookError("needed a form, or a body with its bodySHA256, got another one")
        self._take_once(request.headers[SIGNATURE])

    def check_stream(self, request: WebRequest) -> None:
        self._check(request, [])

    def _check(self, request: WebRequest, fields: list[tuple[str, str]]) -> None:
        given = request.headers.get(SIGNATURE, "")
        if not any(is_same(given, signature(self._secret, url, fields)) for url in _with_and_without_port(request.url)):
            raise self._forged()

    def call(self, request: WebRequest) -> IncomingCall:
        fields = dict(request.form() or request.query())
        if not fields.get("CallSid"):
            raise WebhookError("needed a CallSid, got a request without one; set this address as the number's webhook")
        return IncomingCall(
            call_id=fields["CallSid"], number=fields.get("From", ""), called_number=fields.get("To", "")
        )

    def answer(self, call: IncomingCall, stream_url: str, token: str) -> Answer:
        given = {TOKEN: token, NUMBER: call.number, CALLED_NUMBER: call.called_number}
        parameters = "".join(parameter(name, value) for name, value in given.items() if value)
        return xml(f"<Connect><Stream url={quoteattr(stream_url)}>{parameters}</Stream></Connect>")

    def wire(self) -> MediaWire:
        return TwilioWire()


def signature(auth_token: str, url: str, fields: Iterable[tuple[str, str]]) -> str:
    """Return Twilio's signature of an address and the fields of a form."""
    data = url + "".join(f"{name}{value}" for name, value in sorted(set(fields)))
    return base64.b64encode(hmac.new(auth_token.encode(), data.encode(), hashlib.sha1).digest()).decode()


def _with_and_without_port(url: str) -> list[str]:
    parts = urlsplit(url)
    host, _, port = parts.netloc.rpartition(":")
    if host and port.isdecimal():
        return [url, urlunsplit(parts._replace(netloc=host))]
    default = PORTS.get(parts.scheme, 443)
    return [url, urlunsplit(parts._replace(netloc=f"{parts.netloc}:{default}"))]
