"""A plain stream for one's own programs: PCM in binary messages, and five small messages of text.

To us: `{"event": "start", "sample_rate": 16000, "call_id": "", "from": "", "to": "", "parameters": {}}` first; binary
messages of 16-bit mono PCM, low byte first, of any length; `{"event": "key", "key": "5"}`;
`{"event": "mark", "name": …}` when the audio before that mark has been played; `{"event": "stop"}`.
From us: binary messages; `{"event": "mark", "name": …}`, to be sent back; `{"event": "clear"}`: drop the audio that has
not been played, and do not send its marks back, or do; `{"event": "stop"}`, before the socket closes.
"""

from __future__ import annotations

from typing import Any

from vivavoce.agents.transports.media_stream.coding import l16
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
    key_of,
    number_of,
    object_of,
    text_of,
    texts_of,
)


class RawWire(MediaWire):
    """One call. Audio goes both ways at the rate that `start` names."""

    name = "raw"

    def __init__(self) -> None:
        super().__init__(l16(16000))

    def receive(self, message: Message) -> list[WireEvent]:
        if isinstance(message, bytes):
            self._check_started("audio")
            return [Heard(self._coding.decode(message))]
        data = object_of(message)
        match data.get("event"):
            case "start":
                return [self._start(data)]
            case "key":
                self._check_started("a key")
                return [key_of({"digit": data.get("key")})]
            case "mark":
                self._check_started("a mark")
                return [MarkPlayed(text_of(data, "name"))]
            case "stop":
                self._check_started("a stop")
                return [Stopped()]
        raise WireError(f"needed an event start, key, mark or stop, got {str(data.get('event'))[:40]!r}; it is ignored")

    def _start(self, data: dict[str, Any]) -> Started:
        coding = l16(number_of(data, "sample_rate") or 16000)
        started = Started(
            line=self.name,
            call_id=text_of(data, "call_id"),
            number=text_of(data, "from"),
            called_number=text_of(data, "to"),
            parameters=texts_of(data, "parameters"),
        )
        self._begin()
        self._coding = coding
        return started

    def audio(self, pcm: bytes) -> Message:
        return self._coding.encode(pcm)

    def mark(self, name: str) -> Message:
        return as_json({"event": "mark", "name": name})

    def clear(self) -> Message:
        return as_json({"event": "clear"})

    def stop(self) -> Message | None:
        return as_json({"event": "stop"})
