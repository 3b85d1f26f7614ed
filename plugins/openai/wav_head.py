"""WavHead: the head of a WAV file that is streamed, so that its length is not known, or wrong.

Source: https://learn.microsoft.com/windows/win32/xaudio2/resource-interchange-file-format--riff-.
"""

from __future__ import annotations

import struct

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.plugins.openai.wire import PROVIDER

PCM, EXTENSIBLE = 1, 0xFFFE
UNKNOWN = 0x7FFFFF00
"""Lengths from here on stand for an unknown one."""
MAX_HEAD = 65_536
"""Bytes in which the samples must begin."""


class WavHead:
    """Takes the pieces of the file and returns those of its samples."""

    def __init__(self) -> None:
        self.sample_rate: int | None = None
        """Hz, once the samples begin."""
        self._head = b""
        self._rate = 0
        self._left: int | None = None
        """Bytes of samples to come; None: their number is not known."""

    def push(self, data: bytes) -> bytes:
        """Return the samples in a piece; none before the head is whole.

        Raises:
            ProviderProtocolError: It is no WAV file of mono 16-bit PCM.
        """
        if self.sample_rate is not None:
            return self._samples(data)
        self._head += data
        if len(self._head) < 12:
            return b""
        if self._head[:4] != b"RIFF" or self._head[8:12] != b"WAVE":
            raise _wrong("a WAV file", "other data")
        at = 12
        while len(self._head) >= at + 8:
            name, size = struct.unpack_from("<4sI", self._head, at)
            if name == b"data":
                if not self._rate:
                    raise _wrong("a format before the samples", "none")
                self.sample_rate = self._rate
                self._left = size if 0 < size < UNKNOWN else None
                return self._samples(self._head[at + 8 :])
            if len(self._head) < at + 8 + size:
                break
            if name == b"fmt ":
                self._rate = _rate_of(self._head[at + 8 : at + 8 + size])
            at += 8 + size + size % 2
        if len(self._head) > MAX_HEAD:
            raise _wrong("samples", f"none in {MAX_HEAD} bytes")
        return b""

    def _samples(self, data: bytes) -> bytes:
        """Leave out what comes behind the samples, such as the file's title."""
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return data


def _rate_of(fields: bytes) -> int:
    if len(fields) < 16:
        raise _wrong("a format of 16 bytes or more", len(fields))
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", fields)
    if kind not in (PCM, EXTENSIBLE) or channels != 1 or bits != 16 or rate <= 0:
        raise _wrong("mono 16-bit PCM", f"kind {kind}, {channels} channels, {bits} bits, {rate} Hz")
    return int(rate)


def _wrong(needed: str, got: object) -> ProviderProtocolError:
    return ProviderProtocolError(f"needed {needed} as speech, got {got}; check response_format", provider=PROVIDER)
