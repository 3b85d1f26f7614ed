"""Telnyx's media streams.

The audio to Telnyx has the form that we asked for, the audio from Telnyx that of the phone's leg: they may differ.

Source: developers.telnyx.com/api-reference/websockets/stream-call-media-over-websocket (`connected`, `start`, `media`,
`dtmf`, `mark`, `error`, `stop` from Telnyx; `media`, `mark`, `clear` to Telnyx; their order "is not guaranteed").
"""

from __future__ import annotations

from typing import Any

from vivavoce.agents.transports.media_stream.coding import Coding, l16
from vivavoce.agents.transports.media_stream.wire import (
    MOST_SHOWN,
    Failed,
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

L16_IS_BIG_ENDIAN = False
"""Not said by Telnyx; RFC 2586 has the high byte first, and public code reads the low one first. Not tried."""


class TelnyxWire(MediaWire):
    """One call, with the bidirectional mode `rtp`.

    Args:
        output: The bidirectional codec that the stream was asked for.
    """

    name = "telnyx"
    reorders = True

    def __init__(self, output: Coding | None = None) -> None:
        super().__init__(Coding("mulaw"))
        self._output = output or Coding("mulaw")

    @property
    def output_rate(self) -> int:
        return self._output.sample_rate

    def receive(self, message: Message) -> list[WireEvent]:
        data = object_of(message)
        event = data.get("event")
        if event == "start":
            return [self._start(data)]
        if event == "error":
            return [_failed(data)]
        if event not in ("media", "dtmf", "mark", "stop"):
            return []
        self._check_started(event)
        self._check_stream(text_of(data, "stream_id", default=self._stream_id))
        if event == "media":
            return self._media(data, part_of(data, "media"))
        if event == "dtmf":
            return [key_of(part_of(data, "dtmf"))]
        if event == "mark":
            return [MarkPlayed(text_of(part_of(data, "mark"), "name"))]
        return [Stopped()]

    def _start(self, data: dict[str, Any]) -> Started:
        start = part_of(data, "start")
        coding = _coding(part_of(start, "media_format"))
        started = Started(
            line=self.name,
            call_id=text_of(start, "call_control_id") or text_of(start, "call_session_id"),
            stream_id=text_of(data, "stream_id"),
            number=text_of(start, "from"),
            called_number=text_of(start, "to"),
            parameters=texts_of(start, "custom_parameters"),
        )
        self._begin()
        self._coding, self._stream_id = coding, started.stream_id
        return started

    def _media(self, data: dict[str, Any], media: dict[str, Any]) -> list[WireEvent]:
        if text_of(media, "track", default="inbound") != "inbound":
            return []
        chunk = number_of(media, "chunk")
        if chunk is None:
            chunk = number_of(data, "sequence_number")
        return [Heard(self._coding.decode(payload_of(media)), chunk, number_of(media, "timestamp"))]

    def audio(self, pcm: bytes) -> Message:
        return as_json({"event": "media", "media": {"payload": in_base64(self._output.encode(pcm))}})

    def mark(self, name: str) -> Message:
        return as_json({"event": "mark", "mark": {"name": name}})

    def clear(self) -> Message:
        return as_json({"event": "clear"})


def _coding(format_: dict[str, Any]) -> Coding:
    encoding, rate = text_of(format_, "encoding").upper(), number_of(format_, "sample_rate") or 8000
    if encoding in ("PCMU", "PCMA") and rate == 8000:
        return Coding("mulaw" if encoding == "PCMU" else "alaw")
    if encoding == "L16":
        return l16(rate, is_big_endian=L16_IS_BIG_ENDIAN)
    raise WireError(
        f"needed PCMU, PCMA or L16 from Telnyx, got {cut(encoding)} of {rate} Hz; allow only G.711 on the connection"
    )


def _failed(data: dict[str, Any]) -> Failed:
    payload = data.get("payload")
    known = payload if isinstance(payload, dict) else {}  # its fields are not in the reference
    code, title = known.get("code"), known.get("title")
    title = title[:MOST_SHOWN] if isinstance(title, str) else "unnamed"
    return Failed(f"Telnyx reports an error of the stream: {title} ({cut(code)})")
