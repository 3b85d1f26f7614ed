"""The messages between TTS and its helper process: frames, sans-I/O.

A frame is two big-endian 32-bit lengths, a JSON header and a payload, 16-bit PCM for audio and else empty.
To the helper:

    {"op": "speak", "id": n, "text": …}       speak it; requests are served in order
    {"op": "cancel", "id": n}                 stop that one

From the helper:

    {"op": "ready"}                           once, when the voice is loaded
    {"op": "refused", "message": …}           instead, if it cannot be loaded; the helper then ends
    {"op": "audio", "id": n, "events": [[kind, position, sample], …]} + PCM
    {"op": "end", "id": n}                    the text is over, spoken or cancelled
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

LENGTHS = struct.Struct(">II")
MAX_HEADER = 1 << 20
MAX_PAYLOAD = 1 << 24

Header = dict[str, Any]


class WireError(ValueError):
    """Bytes that are not a frame."""


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Return one frame."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return LENGTHS.pack(len(text), len(payload)) + text + payload


class FrameDecoder:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """Take bytes as they come and yield each frame that is now complete.

        Raises:
            WireError: A length is out of bounds or a header is not a JSON object; the stream is lost.
        """
        self._buffer += data
        while len(self._buffer) >= LENGTHS.size:
            header_size, payload_size = LENGTHS.unpack_from(self._buffer)
            if header_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
                raise WireError(
                    f"a frame has at most {MAX_HEADER} + {MAX_PAYLOAD} bytes, got {header_size} + {payload_size}"
                )
            end = LENGTHS.size + header_size + payload_size
            if len(self._buffer) < end:
                return
            middle = LENGTHS.size + header_size
            header = _header(bytes(self._buffer[LENGTHS.size : middle]))
            payload = bytes(self._buffer[middle:end])
            del self._buffer[:end]
            yield header, payload


def _header(data: bytes) -> Header:
    try:
        header = json.loads(data)
    except ValueError as error:
        raise WireError(f"a frame's header must be JSON, got {len(data)} bytes that are not: {error}") from error
    if not isinstance(header, dict):
        raise WireError(f"a frame's header must be a JSON object, got {type(header).__name__}")
    return header
