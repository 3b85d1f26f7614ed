"""Vonage's WebSocket endpoint of the Voice API.

Source: developer.vonage.com/en/voice/voice-api/guides/websockets (`websocket:connected`, `websocket:dtmf`,
`websocket:notify`, `websocket:cleared` and binary audio from Vonage; binary audio, `notify`, `clear` to Vonage).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vivavoce.agents.transports.media_stream.coding import Coding, l16
from vivavoce.agents.transports.media_stream.wire import (
    Heard,
    MarkPlayed,
    MediaWire,
    Message,
    Started,
    WireError,
    WireEvent,
    as_json,
    key_of,
    object_of,
    part_of,
    text_of,
)

NUMBER, CALLED_NUMBER, CALL_ID = "from", "to", "call"
"""Headers of the endpoint in which our webhook puts facts of the call: the first message repeats them."""
_OWN = frozenset({"event", "content-type", NUMBER, CALLED_NUMBER, CALL_ID})


class VonageWire(MediaWire):
    """One call. Audio goes both ways as 16-bit PCM, low byte first, 20 ms a message."""

    name = "vonage"

    def __init__(self) -> None:
        super().__init__(l16(16000))

    def receive(self, message: Message) -> list[WireEvent]:
        if isinstance(message, bytes):
            self._check_started("audio")
            return [Heard(self._coding.decode(message))]
        data = object_of(message)
        event = data.get("event")
        if event == "websocket:connected":
            return [self._start(data)]
        if event == "websocket:dtmf":
            self._check_started("a key")
            return [key_of(data if "digit" in data else part_of(data, "dtmf"))]  # the second is an older form
        if event == "websocket:notify":
            self._check_started("a notification")
            return [MarkPlayed(text_of(part_of(data, "payload"), "name"))]
        return []

    def _start(self, data: Mapping[str, Any]) -> Started:
        coding = _coding(text_of(data, "content-type"))
        parameters = {name: text_of(data, name) for name in data if name not in _OWN}
        started = Started(
            line=self.name,
            call_id=text_of(data, CALL_ID),
            number=text_of(data, NUMBER),
            called_number=text_of(data, CALLED_NUMBER),
            parameters=parameters,
        )
        self._begin()
        self._coding = coding
        return started

    def audio(self, pcm: bytes) -> Message:
        size = self._coding.sample_rate // 50 * 2
        return self._coding.encode(pcm).ljust(size, b"\0")  # a message has exactly one frame: the last one is filled up

    def mark(self, name: str) -> Message:
        return as_json({"action": "notify", "payload": {"name": name}})

    def clear(self) -> Message:
        return as_json({"action": "clear"})


def _coding(content_type: str) -> Coding:
    if found := re.fullmatch(r"audio/l16;\s*rate=(\d{1,6})", content_type, re.ASCII):
        return l16(int(found[1]))
    raise WireError(
        f"needed audio/l16 with a rate from Vonage, got {content_type[:60]!r}; set content-type in the NCCO"
    )
