"""The vendors' webhooks: their signatures by their own vectors, our answers, and the tokens in them."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from vivavoce.agents.transports.media_stream.admission import VALID_SECONDS, Admission
from vivavoce.agents.transports.media_stream.plivo.webhook import PlivoWebhook
from vivavoce.agents.transports.media_stream.plivo.webhook import signature as plivo_signature
from vivavoce.agents.transports.media_stream.raw.webhook import RawWebhook
from vivavoce.agents.transports.media_stream.telnyx.webhook import TelnyxWebhook
from vivavoce.agents.transports.media_stream.twilio.webhook import TwilioWebhook, signature
from vivavoce.agents.transports.media_stream.vendors import SECRETS, secret_of, webhook_of
from vivavoce.agents.transports.media_stream.vonage.webhook import VonageWebhook
from vivavoce.agents.transports.media_stream.webhook import IncomingCall, WebhookError, WebRequest
from vivavoce.pipelines.core.errors import ConfigurationError

URL = "https://example.com/twilio"
CALL = IncomingCall(call_id="CA1", number='+15550100"<', called_number="+15550199")
FORM = "application/x-www-form-urlencoded"
NOW = 1_767_225_600.0


def now() -> float:
    return NOW


def posted(fields: dict[str, str], headers: dict[str, str], url: str = URL) -> WebRequest:
    return WebRequest(method="POST", url=url, headers={"content-type": FORM} | headers, body=urlencode(fields).encode())


# --- Twilio


@pytest.mark.parametrize(
    ("caller", "expected"),
    [("+14158675309", "RSOYDt4T1cUTdK1PDd93/VVr8B8="), ("+12349013030", "0/KCTR6DLpKmkAf8muzZqo1nDgQ=")],
)
def test_twilios_signature_by_its_documented_vectors(caller: str, expected: str) -> None:
    fields = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": caller,
        "Digits": "1234",
        "From": caller,
        "To": "+18005551212",
    }
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert signature("12345", url, fields.items()) == expected
    hook = TwilioWebhook("12345", now)
    hook.check(posted(fields, {"x-twilio-signature": expected}, url))
    with pytest.raises(WebhookError, match="of your account, and --public-url the address that Twilio calls"):
        hook.check(posted(fields | {"Digits": "1235"}, {"x-twilio-signature": expected}, url))
    assert hook.call(posted(fields, {})).number == caller


def test_twilios_stream_is_signed_with_or_without_the_port() -> None:
    hook, given = TwilioWebhook("12345", now), {"x-twilio-signature": "4qZsm0/0bGQYw36gQ+0YyAX07W0="}
    for url in ("wss://example.com/twilio", "wss://example.com:443/twilio"):
        hook.check_stream(WebRequest(method="GET", url=url, headers=given))
    ported = signature("12345", "wss://example.com:443/twilio", [])
    hook.check_stream(WebRequest(method="GET", url="wss://example.com/twilio", headers={"x-twilio-signature": ported}))
    for headers in ({}, {"x-twilio-signature": "§"}, {"x-twilio-signature": given["x-twilio-signature"][:-1]}):
        with pytest.raises(WebhookError):
            hook.check_stream(WebRequest(method="GET", url="wss://example.com/twilio", headers=headers))


def test_a_body_that_is_no_form_is_checked_by_its_hash() -> None:
    body = b'{"CallSid": "CA1"}'
    hook = TwilioWebhook("12345", now)
    url = f"{URL}?bodySHA256={hashlib.sha256(body).hexdigest()}"
    signed = {"x-twilio-signature": signature("12345", url, [])}
    hook.check(WebRequest(method="POST", url=url, headers=signed, body=body))
    with pytest.raises(WebhookError, match="not the one that Twilio signed"):
        hook.check(WebRequest(method="POST", url=url, headers=signed, body=body + b" "))
    unhashed = {"x-twilio-signature": signature("12345", URL, [])}
    with pytest.raises(WebhookError, match="bodySHA256"):
        hook.check(WebRequest(method="POST", url=URL, headers=unhashed, body=body))


def test_twilio_gets_the_stream_with_the_token_and_the_numbers_in_parameters() -> None:
    answer = TwilioWebhook("12345", now).answer(CALL, "wss://example.com/twilio/stream", "abc")
    assert answer.content_type == "text/xml"
    stream = ElementTree.fromstring(answer.body).find("Connect/Stream")
    assert stream is not None
    assert stream.get("url") == "wss://example.com/twilio/stream"
    found = {each.get("name"): each.get("value") for each in stream.iter("Parameter")}
    assert found == {"token": "abc", "from": '+15550100"<', "to": "+15550199"}


# --- Telnyx

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = base64.b64encode(KEY.public_key().public_bytes_raw()).decode()


def telnyx(body: bytes, at: float = NOW) -> WebRequest:
    given = base64.b64encode(KEY.sign(f"{at:.0f}|".encode() + body)).decode()
    headers = {"content-type": FORM, "telnyx-signature-ed25519": given, "telnyx-timestamp": f"{at:.0f}"}
    return WebRequest(method="POST", url="https://example.com/telnyx", headers=headers, body=body)


def test_telnyx_signs_the_time_and_the_body() -> None:
    hook, body = TelnyxWebhook(PUBLIC, now), b"CallSid=c1&From=%2B1&To=%2B2"
    hook.check(telnyx(body))
    assert hook.call(telnyx(body)) == IncomingCall(call_id="c1", number="+1", called_number="+2")
    with pytest.raises(WebhookError, match="more than 5 minutes ago"):
        hook.check(telnyx(body, NOW - 301))
    changes: tuple[dict[str, Any], ...] = (
        {"body": body + b"&x=1"},
        {"headers": {}},
        {"headers": {"telnyx-timestamp": f"{NOW:.0f}", "telnyx-signature-ed25519": "§"}},
    )
    for change in changes:
        signed = telnyx(body)
        given: dict[str, Any] = {"method": "POST", "url": signed.url, "headers": signed.headers, "body": body} | change
        with pytest.raises(WebhookError):
            hook.check(WebRequest(**given))


def test_telnyx_gets_both_directions_by_rtp_and_a_public_key_that_is_none_is_refused() -> None:
    answer = TelnyxWebhook(PUBLIC, now).answer(CALL, "wss://example.com/telnyx/stream", "abc")
    stream = ElementTree.fromstring(answer.body).find("Connect/Stream")
    assert stream is not None
    assert (stream.get("bidirectionalMode"), stream.get("bidirectionalCodec")) == ("rtp", "PCMU")
    for key in ("§", "AAAA"):
        with pytest.raises(ConfigurationError, match="TELNYX_PUBLIC_KEY must be the public key .* 32 bytes in base64"):
            TelnyxWebhook(key, now)


# --- Plivo


def plivo(nonce: str) -> WebRequest:
    unsigned = WebRequest(method="GET", url="https://example.com/plivo?CallUUID=c1", headers={})
    given = "" if nonce == "\udcff" else plivo_signature("token", "GET", unsigned.url, unsigned.query(), [], nonce)
    headers = {"x-plivo-signature-v3": given, "x-plivo-signature-v3-nonce": nonce}
    return WebRequest(method="GET", url=unsigned.url, headers=headers)


def test_a_nonce_that_is_no_text_is_forged() -> None:
    with pytest.raises(WebhookError, match="signature"):
        PlivoWebhook("token", now).check(plivo("\udcff"))  # as aiohttp gives a byte that is no UTF-8


@pytest.mark.parametrize("hook", ["twilio", "telnyx", "plivo"])
def test_a_signed_request_that_is_repeated_is_refused_and_the_next_one_is_not(hook: str) -> None:
    def twilio(number: str) -> WebRequest:
        form = {"CallSid": number}
        headers = {"content-type": FORM, "x-twilio-signature": signature("12345", URL, form.items())}
        return WebRequest(method="POST", url=URL, headers=headers, body=urlencode(form).encode())

    webhook, ask = {
        "twilio": (TwilioWebhook("12345", now), twilio),
        "telnyx": (TelnyxWebhook(PUBLIC, now), lambda number: telnyx(f"CallSid={number}".encode())),
        "plivo": (PlivoWebhook("token", now), plivo),
    }[hook]
    webhook.check(ask("1"))
    with pytest.raises(WebhookError, match="came before"):
        webhook.check(ask("1"))
    webhook.check(ask("2"))


@pytest.mark.parametrize(
    ("method", "url", "form", "expected"),
    [  # made by plivo 4.63.0, get_signature_v3()
        ("GET", "https://example.com/plivo", {}, "Fnao3wAPHjgxvZv7EdBYAw8+DSho78tzdFHNGUbx8HM="),
        ("GET", "https://example.com/plivo?b=2&a=1", {}, "Dl6hM7yUjYm+o1fykNkyhtaWvODCnOV4jiX+kpFr5jo="),
        (
            "POST",
            "https://example.com/plivo",
            {"CallUUID": "c1", "From": "1", "To": "2"},
            "kn09ErjfJTXW3TjauHkfX1h+TclX2FDu6xMxkwDtU8M=",
        ),
        (
            "POST",
            "https://example.com/plivo?b=2&a=1",
            {"CallUUID": "c1", "From": "1", "To": "2"},
            "2n84HM9AveTdLOvunZTSMP6LBVdO5V7weTRymC23l5Y=",
        ),
        ("POST", "https://example.com/plivo?b=2&a=1", {}, "Dl6hM7yUjYm+o1fykNkyhtaWvODCnOV4jiX+kpFr5jo="),
    ],
)
def test_plivos_signature_by_its_own_package(method: str, url: str, form: dict[str, str], expected: str) -> None:
    request = WebRequest(
        method=method,
        url=url,
        headers={
            "content-type": FORM,
            "x-plivo-signature-v3": f"other,{expected}",
            "x-plivo-signature-v3-nonce": "12345",
        },
        body=urlencode(form).encode(),
    )
    assert plivo_signature("token", method, url, request.query(), request.form(), "12345") == expected
    PlivoWebhook("token", now).check(request)
    with pytest.raises(WebhookError):
        PlivoWebhook("another", now).check(request)


def test_plivo_gets_letters_and_digits_alone() -> None:
    answer = PlivoWebhook("token", now).answer(CALL, "wss://example.com/plivo/stream", "abc")
    stream = ElementTree.fromstring(answer.body).find("Stream")
    assert stream is not None
    assert stream.text == "wss://example.com/plivo/stream"
    assert stream.get("extraHeaders") == "token=abc,from=15550100,to=15550199"
    assert stream.get("contentType") == "audio/x-mulaw;rate=8000"


# --- Vonage

SECRET = "s" * 32


def vonage(body: bytes, **claims: Any) -> WebRequest:
    payload = {"iat": NOW, "jti": "1", "payload_hash": hashlib.sha256(body).hexdigest()} | claims
    token = jwt.encode(payload, SECRET, algorithm="HS256")
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    return WebRequest(method="POST", url="https://example.com/vonage", headers=headers, body=body)


def test_vonages_request_is_answered_once() -> None:
    hook, body = VonageWebhook(SECRET, now), b'{"uuid": "c1", "from": "1", "to": "2"}'
    hook.check(vonage(body))
    assert hook.call(vonage(body)) == IncomingCall(call_id="c1", number="1", called_number="2")
    with pytest.raises(WebhookError, match="came before"):
        hook.check(vonage(body))
    with pytest.raises(WebhookError, match="more than 5 minutes ago"):
        hook.check(vonage(body, jti="2", iat=NOW - 301))
    with pytest.raises(WebhookError, match="not the one that Vonage signed"):
        hook.check(vonage(body, jti="3", payload_hash="0"))
    unsigned = jwt.encode({"iat": NOW, "jti": "4"}, "", algorithm="none")
    for token in (unsigned, jwt.encode({"iat": NOW, "jti": "5"}, "t" * 32, algorithm="HS256"), "", "a.b.c"):
        headers = {"authorization": f"Bearer {token}"}
        with pytest.raises(WebhookError, match="signature"):
            hook.check(WebRequest(method="POST", url=URL, headers=headers, body=body))


def test_vonage_gets_an_ncco_whose_headers_come_back_on_the_stream() -> None:
    hook = VonageWebhook(SECRET, now)
    answer = hook.answer(CALL, "wss://example.com/vonage/stream", "abc")
    ((endpoint,),) = [action["endpoint"] for action in json.loads(answer.body)]
    first = {"event": "websocket:connected", "content-type": endpoint["content-type"]} | endpoint["headers"]
    (started,) = hook.wire().receive(json.dumps(first))
    assert (started.call_id, started.called_number, started.parameters) == ("CA1", "+15550199", {"token": "abc"})  # type: ignore[union-attr]


# --- all


@pytest.mark.parametrize(
    ("hook", "request_"),
    [
        (TwilioWebhook("1", now), posted({}, {})),
        (TelnyxWebhook(PUBLIC, now), telnyx(b"")),
        (PlivoWebhook("1", now), posted({}, {})),
        (VonageWebhook(SECRET, now), vonage(b"[]")),
        (VonageWebhook(SECRET, now), vonage(b"\xff")),
        (TwilioWebhook("1", now), WebRequest(method="POST", url=URL, headers={"content-type": FORM}, body=b"\xff=1")),
        (TwilioWebhook("1", now), WebRequest(method="GET", url=f"{URL}?{'a=1&' * 300}", headers={})),
    ],
)
def test_a_request_that_is_about_no_call_is_refused(hook: Any, request_: WebRequest) -> None:
    with pytest.raises(WebhookError, match="needed a"):
        hook.call(request_)


def test_a_program_of_ones_own_shows_its_key_and_gets_an_address_and_a_token() -> None:
    hook = RawWebhook("key", now)
    hook.check(WebRequest(method="POST", url=URL, headers={"authorization": "Bearer key"}))
    for given in ("", "Bearer kez", "key"):
        with pytest.raises(WebhookError, match="needed the header Authorization: Bearer KEY, .* VIVAVOCE_STREAM_KEY"):
            hook.check(WebRequest(method="POST", url=URL, headers={"authorization": given}))
    answer = hook.answer(hook.call(WebRequest(method="POST", url=URL, headers={})), "ws://here/raw/stream", "abc")
    assert json.loads(answer.body) == {"url": "ws://here/raw/stream", "token": "abc"}


@pytest.fixture
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in SECRETS.values():
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("no_secrets")
def test_a_vendor_that_is_unknown_or_has_no_secret_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="one of twilio, telnyx, plivo, vonage, raw, got 'acme'"):
        secret_of("acme")
    for vendor, variable in SECRETS.items():
        with pytest.raises(ConfigurationError, match=f"set {variable}"):
            webhook_of(vendor, now)
        monkeypatch.setenv(variable, PUBLIC)
        assert webhook_of(vendor, now).name == vendor
        assert PUBLIC not in repr(webhook_of(vendor, now))


def test_a_token_admits_one_stream_once_within_30_seconds() -> None:
    at = 0.0
    admission = Admission(lambda: at)
    first, second, third = (admission.mint(CALL) for _ in range(3))
    assert first.isalnum()
    assert admission.admit(first) == CALL
    assert admission.admit(first) is None
    assert admission.admit("") is None
    at = VALID_SECONDS - 0.1
    assert admission.admit(second) == CALL
    at = VALID_SECONDS
    assert admission.admit(third) is None
    assert admission.waiting == 0  # a webhook that no call followed
