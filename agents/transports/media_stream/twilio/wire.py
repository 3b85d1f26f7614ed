"""Twilio's media streams.

Source: twilio.com/docs/voice/media-streams/websocket-messages (`connected`, `start`, `media`, `dtmf`, `mark`, `stop`
from Twilio; `media`, `mark`, `clear` to Twilio) and twilio.com/docs/voice/twiml/stream (two-way streams).
"""

from __future__ import annotations

from typing import Any

from vivavoce.agents.transports.media_stream.coding import Coding, l16
from vivavoce.agents.transports.media_stream.wire import (
    Heard,
    MarkPlayed,
    MediaWire,
    Message,
    Started,
    Stopped,
    WireError,
    WireEvent,
    as_json,
    cut,
    in_base64,
    key_of,
    number_of,
    object_of,
    part_of,
    payload_of,
    text_of,
    texts_of,
)

NUMBER, CALLED_NUMBER = "from", "to"
"""Parameters of the stream in which our webhook puts the numbers: `start` has none of its own."""


class TwilioWire(MediaWire):
    """One call. Audio goes both ways in the form that `start` names: mu-law of 8 kHz, unless the account has more."""

    name = "twilio"

    def __init__(self) -> None:
        super().__init__(Coding("mulaw"))

    def receive(self, message: Message) -> list[WireEvent]:
        data = object_of(message)
        event = data.get("event")
        if event == "start":
            return [self._start(data)]
        if event not in ("media", "dtmf", "mark", "stop"):
            return []
        self._check_started(event)
        self._check_stream(text_of(data, "streamSid"))
        if event == "media":
            return self._media(part_of(data, "media"))
        if event == "dtmf":
            return [key_of(part_of(data, "dtmf"))]
        if event == "mark":
            return [MarkPlayed(text_of(part_of(data, "mark"), "name"))]
        return [Stopped()]

    def _start(self, data: dict[str, Any]) -> Started:
        start = part_of(data, "start")
        coding = _coding(part_of(start, "mediaFormat"))
        parameters = texts_of(start, "customParameters")
        call_id, stream_id = text_of(start, "callSid"), text_of(start, "streamSid") or text_of(data, "streamSid")
        if not stream_id:
            raise WireError("needed a streamSid in Twilio's start, got none; the stream cannot begin")
        self._begin()
        self._coding, self._stream_id = coding, stream_id
        number, called = parameters.pop(NUMBER, ""), parameters.pop(CALLED_NUMBER, "")
        return Started(
            line=self.name,
            call_id=call_id,
            stream_id=stream_id,
            number=number,
            called_number=called,
            parameters=parameters,
        )

    def _media(self, media: dict[str, Any]) -> list[WireEvent]:
        if text_of(media, "track", default="inbound") != "inbound":
            return []  # our own audio: a stream that was not begun by `<Connect>`
        pcm = self._coding.decode(payload_of(media))
        return [Heard(pcm, number_of(media, "chunk"), number_of(media, "timestamp"))]

    def audio(self, pcm: bytes) -> Message:
        payload = in_base64(self._coding.encode(pcm))
        return as_json({"event": "media", "streamSid": self._stream_id, "media": {"payload": payload}})

    def mark(self, name: str) -> Message:
        return as_json({"event": "mark", "streamSid": self._stream_id, "mark": {"name": name}})

    def clear(self) -> Message:
        return as_json({"event": "clear", "streamSid": self._stream_id})


def _coding(format_: dict[str, Any]) -> Coding:
    encoding, rate = text_of(format_, "encoding"), number_of(format_, "sampleRate") or 8000
    if encoding == "audio/x-mulaw" and rate == 8000:
        return Coding("mulaw")
    if encoding == "audio/x-l16":  # not in the reference of the messages; `<Stream audioFormat>` of twilio 9.13.0
        return l16(rate)
    found = f"{cut(encoding)} of {rate} Hz"
    raise WireError(f"needed audio/x-mulaw of 8000 Hz from Twilio, got {found}; set it at the stream")
