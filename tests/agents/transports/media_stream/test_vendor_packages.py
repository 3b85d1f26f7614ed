"""Our webhooks against the vendors' own packages: both accept and refuse the same requests, and write the same XML."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kit.peer_process import run_peer
from kit.servers.install import telephone_vendors_python
from vivavoce.agents.transports.media_stream.plivo.webhook import LONGEST_CALL, PlivoWebhook
from vivavoce.agents.transports.media_stream.plivo.webhook import signature as plivo_signature
from vivavoce.agents.transports.media_stream.telnyx.webhook import TelnyxWebhook
from vivavoce.agents.transports.media_stream.twilio.webhook import TwilioWebhook
from vivavoce.agents.transports.media_stream.twilio.webhook import signature as twilio_signature
from vivavoce.agents.transports.media_stream.vonage.webhook import VonageWebhook
from vivavoce.agents.transports.media_stream.webhook import IncomingCall, Webhook, WebhookError, WebRequest
from vivavoce.pipelines.core.clock import LoopClock

pytestmark = [
    pytest.mark.test_all("packages of four vendors, installed for it; the vectors are in make test"),
    pytest.mark.timeout(120),
]

WALL = LoopClock().wall
COUNT = 200
SECRET = "a secret of 32 characters or more"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = base64.b64encode(KEY.public_key().public_bytes_raw()).decode()
FORM = "application/x-www-form-urlencoded"
WORDS = ("CallSid", "From", "To", "a", "Ä", "+15550100", "x y", "", "%20", "&=?", "日本", '"<>')
ASCII = tuple(word for word in WORDS if word.isascii())


@dataclass(frozen=True)
class Case:
    """One request: for the vendor's package, and for our webhook."""

    job: dict[str, Any]
    hook: Webhook
    request: WebRequest

    def is_accepted(self) -> bool:
        """Whether our webhook does."""
        try:
            self.hook.check(self.request)
        except WebhookError:
            return False
        return True


def fields(chance: random.Random, words: tuple[str, ...] = WORDS) -> dict[str, str]:
    return {chance.choice(words[:5]): chance.choice(words) for _ in range(chance.randrange(5))}


def url(chance: random.Random, vendor: str) -> str:
    """Return an address of ours; in ASCII, since Plivo's package fails on another query."""
    port = chance.choice(("", ":443", ":8443"))
    query = urlencode(fields(chance, ASCII)) if chance.random() < 0.5 else ""
    return f"https://example.com{port}/{vendor}" + (f"?{query}" if query else "")


def spoiled(text: str, chance: random.Random) -> str:
    """Return the text, half the time with another character in it."""
    if chance.random() < 0.5:
        return text
    at = chance.randrange(len(text) - 2)
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def twilio(chance: random.Random) -> Case:
    form, at = fields(chance), url(chance, "twilio")
    given = spoiled(twilio_signature(SECRET, at, form.items()), chance)
    headers = {"content-type": FORM, "x-twilio-signature": given}
    request = WebRequest(method="POST", url=at, headers=headers, body=urlencode(form).encode())
    job = {"secret": SECRET, "url": at, "form": form, "signature": given}
    return Case(job, TwilioWebhook(SECRET, WALL), request)


def plivo(chance: random.Random) -> Case:
    method, at, nonce = chance.choice(("GET", "POST")), url(chance, "plivo"), str(chance.randrange(10**9))
    form = fields(chance) if method == "POST" else {}
    unsigned = WebRequest(method=method, url=at, headers={})
    given = spoiled(plivo_signature(SECRET, method, at, unsigned.query(), form.items(), nonce), chance)
    headers = {"content-type": FORM, "x-plivo-signature-v3": f"x,{given}", "x-plivo-signature-v3-nonce": nonce}
    request = WebRequest(method=method, url=at, headers=headers, body=urlencode(form).encode())
    job = {"method": method, "url": at, "nonce": nonce, "secret": SECRET, "signature": f"x,{given}", "form": form}
    return Case(job, PlivoWebhook(SECRET, WALL), request)


def telnyx(chance: random.Random) -> Case:
    body = json.dumps({"data": fields(chance)}, ensure_ascii=False)
    at = f"{WALL() - chance.choice((0, 200, 400)):.0f}"
    given = base64.b64encode(KEY.sign(f"{at}|{body}".encode())).decode()
    headers = {"telnyx-signature-ed25519": given, "telnyx-timestamp": at}
    sent = spoiled(body, chance)
    request = WebRequest(method="POST", url="https://example.com/telnyx", headers=headers, body=sent.encode())
    return Case({"body": sent, "headers": headers, "key": PUBLIC}, TelnyxWebhook(PUBLIC, WALL), request)


def vonage(chance: random.Random) -> Case:
    body = json.dumps(fields(chance)).encode()
    claims = {"iat": int(WALL()), "jti": str(chance.random()), "payload_hash": hashlib.sha256(body).hexdigest()}
    key = chance.choice((SECRET, SECRET, SECRET[::-1]))
    token = jwt.encode(claims, key, algorithm="HS256")
    headers = {"authorization": f"Bearer {token}"}
    request = WebRequest(method="POST", url="https://example.com/vonage", headers=headers, body=body)
    return Case({"token": token, "secret": SECRET}, VonageWebhook(SECRET, WALL), request)


def canonical(xml: str) -> str:
    return ElementTree.canonicalize(xml, strip_text=True)


async def test_the_vendors_packages_accept_and_refuse_the_same_requests_and_write_the_same_answers() -> None:
    chance = random.Random(41)
    makers = {"twilio": twilio, "plivo": plivo, "telnyx": telnyx, "vonage": vonage}
    cases = {name: [make(chance) for _ in range(COUNT)] for name, make in makers.items()}
    stream_url, call = "wss://example.com/stream?a", IncomingCall(call_id="1", number='+1"<', called_number="+2")
    stream = {
        "url": stream_url,
        "parameters": {"token": "abc", "from": call.number, "to": call.called_number},
        "headers": "token=abc,from=1,to=2",
        "seconds": LONGEST_CALL,
    }
    job: dict[str, Any] = {name: [case.job for case in made] for name, made in cases.items()} | {"stream": stream}
    theirs = await run_peer("telephone_vendors.py", job, telephone_vendors_python)
    for name, made in cases.items():
        verdicts = theirs["verdicts"][name]
        ours = [case.is_accepted() for case in made]
        differ = [case.job for case, our, their in zip(made, ours, verdicts, strict=True) if our != their]
        assert differ == [], name
        assert 0.2 * COUNT < sum(ours) < 0.8 * COUNT
    for hook in (TwilioWebhook(SECRET, WALL), PlivoWebhook(SECRET, WALL)):
        assert canonical(hook.answer(call, stream_url, "abc").body) == canonical(theirs["answers"][hook.name])
