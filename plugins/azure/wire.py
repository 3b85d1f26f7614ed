"""Frames of Azure Speech's websockets, sans-I/O: lines `Name:value`, an empty line, and a body.

A text frame is that as it stands. A binary frame begins with the length of its head, in two bytes, big-endian, and has
no empty line. Each turn (one recognition, or one speech) has a request id of 32 hexadecimal digits.

Source: azure-cognitiveservices-speech 1.53.0, captured on loopback; npm microsoft-cognitiveservices-speech-sdk 1.52.0,
`common.speech/WebsocketMessageFormatter.js` and `HeaderNames.js`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object

PROVIDER = "azure"

TICKS = 10_000_000
"""Units of time in a second: 100 ns each."""

JSON = "application/json"
SSML = "application/ssml+xml"
TEXT = "text/plain"

END_OF_HEAD = "\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Frame:
    """One message.

    Args:
        heads: Names in lower case.
    """

    heads: Mapping[str, str]
    body: str | bytes = field(repr=False)

    @property
    def path(self) -> str:
        """The kind of the message in lower case, such as `"speech.phrase"`; "" for one that has none."""
        return self.heads.get("path", "").lower()

    @property
    def request(self) -> str:
        """The id of its turn."""
        return self.heads.get("x-requestid", "").lower()

    def fields(self, failures: Failures) -> dict[str, Any]:
        """Return the object that its body is.

        Raises:
            ProviderProtocolError: It is none.
        """
        return json_object(self.body, failures)


def new_request() -> str:
    """Return an id for a turn, or for a connection."""
    return uuid4().hex


def text_frame(path: str, body: str, *, request: str = "", kind: str = JSON) -> str:
    """Return a text frame."""
    return _head(path, request, kind, "") + "\r\n" + body


def binary_frame(path: str, data: bytes, *, request: str, kind: str = "", stream: str = "") -> bytes:
    """Return a binary frame."""
    head = _head(path, request, kind, stream).encode()
    return len(head).to_bytes(2, "big") + head + data


def read_frame(message: str | bytes, failures: Failures) -> Frame:
    """Return the frame of a message; one without a head has no path.

    Raises:
        ProviderProtocolError: It is no frame.
    """
    if isinstance(message, str):
        head, _, body = message.partition(END_OF_HEAD)
        return Frame(_heads(head), body)
    end = 2 + int.from_bytes(message[:2], "big")
    if len(message) < max(2, end):
        raise failures.malformed("a binary frame as long as its head says", f"{len(message)} bytes")
    return Frame(_heads(message[2:end].decode("utf-8", "replace")), message[end:])


def speech_config(source: Mapping[str, Any] | None = None) -> str:
    """Return the first message of a connection.

    Args:
        source: The audio that is sent, for a recogniser.
    """
    context: dict[str, Any] = {
        "system": {"name": "vivavoce", "version": "1", "build": "", "lang": "Python"},
        "os": {"platform": sys.platform, "name": sys.platform, "version": ""},
    }
    if source is not None:
        context["audio"] = {"source": dict(source)}
    return text_frame("speech.config", json.dumps({"context": context}))


def ticks_of(told: Mapping[str, Any], name: str, failures: Failures) -> float:
    """Return a time of a message in seconds; 0 if it has none.

    Raises:
        ProviderProtocolError: It is no number of ticks.
    """
    value = told.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e16:
        raise failures.malformed(f"a number of ticks as {name}", type(value).__name__)
    return value / TICKS


def _head(path: str, request: str, kind: str, stream: str) -> str:
    wall = datetime.fromtimestamp(LoopClock().wall(), UTC)
    now = wall.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    heads = {"X-Timestamp": now, "Path": path, "Content-Type": kind, "X-RequestId": request, "X-StreamId": stream}
    return "".join(f"{name}:{value}\r\n" for name, value in heads.items() if value)


def _heads(head: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.split("\r\n"))
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
