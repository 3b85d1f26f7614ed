"""What the packages of telephone vendors say of requests and answers; run by the interpreter that has them.

Reads a job as JSON: `{"twilio": [...], "plivo": [...], "telnyx": [...], "vonage": [...], "stream": {...}}`, a list of
signed requests for each vendor. Prints their verdicts, and the XML that the packages write for a stream, as one line of
JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from plivo import plivoxml
from plivo.utils import validate_v3_signature
from telnyx import Telnyx
from twilio.request_validator import RequestValidator
from twilio.twiml.voice_response import Connect, VoiceResponse
from vonage_jwt.verify_jwt import verify_signature


def twilio(request: dict[str, Any]) -> bool:
    validator = RequestValidator(request["secret"])
    return bool(validator.validate(request["url"], request["form"], request["signature"]))


def plivo(request: dict[str, Any]) -> bool:
    names = ("method", "url", "nonce", "secret", "signature")
    return bool(validate_v3_signature(*(request[name] for name in names), dict(request["form"])))


def telnyx(request: dict[str, Any]) -> bool:
    try:
        Telnyx(api_key="key").webhooks.unwrap(request["body"], headers=request["headers"], key=request["key"])
    except ValueError:
        return False
    return True


def vonage(request: dict[str, Any]) -> bool:
    return bool(verify_signature(request["token"], request["secret"]))


def answers(stream: dict[str, Any]) -> dict[str, str]:
    """Return the XML of each package for the same stream."""
    response, connect = VoiceResponse(), Connect()
    element = connect.stream(url=stream["url"])
    for name, value in stream["parameters"].items():
        element.parameter(name=name, value=value)
    response.append(connect)
    plivos = plivoxml.ResponseElement().add(
        plivoxml.StreamElement(
            stream["url"],
            bidirectional=True,
            keepCallAlive=True,
            audioTrack="inbound",
            streamTimeout=stream["seconds"],
            contentType="audio/x-mulaw;rate=8000",
            extraHeaders=stream["headers"],
        )
    )
    return {"twilio": str(response), "plivo": plivos.to_string()}


def main() -> None:
    job = json.load(sys.stdin)
    judges = {"twilio": twilio, "plivo": plivo, "telnyx": telnyx, "vonage": vonage}
    verdicts = {name: [judge(request) for request in job[name]] for name, judge in judges.items()}
    print(json.dumps({"verdicts": verdicts, "answers": answers(job["stream"])}))


if __name__ == "__main__":
    main()
