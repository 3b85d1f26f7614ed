"""Plivo's audio streams.

Source: plivo.com/docs/voice-agents/audio-streaming/concepts/audio-streaming-reference (`start`, `media`, `dtmf`,
`playedStream`, `clearedAudio` from Plivo; `playAudio`, `checkpoint`, `clearAudio`, `sendDTMF` to Plivo).
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
)

NUMBER, CALLED_NUMBER = "from", "to"
"""Extra headers of the stream in which our webhook puts the numbers, digits alone: `start` has none of its own."""


class PlivoWire(MediaWire):
    """One call. Audio goes both ways in the form that `start` names."""

    name = "plivo"

    def __init__(self) -> None:
        super().__init__(Coding("mulaw"))

    def receive(self, message: Message) -> list[WireEvent]:
        data = object_of(message)
        event = data.get("event")
        if event == "start":
            return [self._start(data)]
        if event not in ("media", "dtmf", "playedStream", "stop"):
            return []  # `clearedAudio` too: the marks of audio that was cleared are forgotten when it is cleared
        self._check_started(event)
        self._check_stream(text_of(data, "streamId", default=self._stream_id))
        if event == "media":
            return self._media(part_of(data, "media"))
        if event == "dtmf":
            return [key_of(part_of(data, "dtmf"))]
        if event == "playedStream":
            return [MarkPlayed(text_of(data, "name"))]
        return [Stopped()]  # not in the reference, and seen with others

    def _start(self, data: dict[str, Any]) -> Started:
        start = part_of(data, "start")
        coding = _coding(part_of(start, "mediaFormat"))
        parameters = _extra_headers(text_of(data, "extra_headers"))
        call_id, stream_id = text_of(start, "callId"), text_of(start, "streamId")
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
            return []
        pcm = self._coding.decode(payload_of(media))
        return [Heard(pcm, number_of(media, "chunk"), number_of(media, "timestamp"))]

    def audio(self, pcm: bytes) -> Message:
        content = "audio/x-l16" if self._coding.name == "l16" else "audio/x-mulaw"
        media = {
            "contentType": content,
            "sampleRate": self._coding.sample_rate,
            "payload": in_base64(self._coding.encode(pcm)),
        }
        return as_json({"event": "playAudio", "media": media})

    def mark(self, name: str) -> Message:
        return as_json({"event": "checkpoint", "streamId": self._stream_id, "name": name})

    def clear(self) -> Message:
        return as_json({"event": "clearAudio", "streamId": self._stream_id})

    def keys(self, keys: str) -> Message:
        return as_json({"event": "sendDTMF", "dtmf": keys})


def _coding(format_: dict[str, Any]) -> Coding:
    encoding, rate = text_of(format_, "encoding"), number_of(format_, "sampleRate") or 8000
    if encoding == "audio/x-mulaw" and rate == 8000:
        return Coding("mulaw")
    if encoding == "audio/x-l16":
        return l16(rate)
    found = f"{cut(encoding)} of {rate} Hz"
    raise WireError(f"needed audio/x-mulaw or audio/x-l16 from Plivo, got {found}; set contentType")


def _extra_headers(text: str) -> dict[str, str]:
    """Return the names and values of `a=1;b=2`; the documentation writes commas, too."""
    pairs = (pair.partition("=") for pair in text.replace(",", ";").split(";"))
    return {name.strip(): value.strip() for name, is_there, value in pairs if is_there}
