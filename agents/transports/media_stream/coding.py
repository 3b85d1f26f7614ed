"""Coding: the form of the samples on a media stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vivavoce.agents.transports.media_stream.wire_error import WireError
from vivavoce.pipelines.media import g711

L16_RATES_HZ = frozenset({8000, 16000, 24000})


@dataclass(frozen=True, slots=True)
class Coding:
    """G.711, or 16-bit PCM.

    Args:
        sample_rate: Hz; 8000 for G.711.
        is_big_endian: Of `l16` alone: whether the high byte comes first, as RFC 2586 has it.
    """

    name: Literal["mulaw", "alaw", "l16"]
    sample_rate: int = g711.SAMPLE_RATE
    is_big_endian: bool = False

    def decode(self, data: bytes) -> bytes:
        """Return 16-bit mono PCM.

        Raises:
            WireError: Half a sample came.
        """
        if self.name != "l16":
            return g711.decode(data, self.name)
        if len(data) % 2:
            raise WireError(f"needed whole samples of 16 bits, got {len(data)} bytes; the message is dropped")
        return _swapped(data) if self.is_big_endian else data

    def encode(self, pcm: bytes) -> bytes:
        """Return the samples of 16-bit mono PCM as the stream carries them."""
        if self.name != "l16":
            return g711.encode(pcm, self.name)
        return _swapped(pcm) if self.is_big_endian else pcm


def l16(sample_rate: int, *, is_big_endian: bool = False) -> Coding:
    """Return 16-bit PCM of a rate that the vendor names.

    Raises:
        WireError: No media stream has this rate.
    """
    if sample_rate not in L16_RATES_HZ:
        raise WireError(f"needed 16-bit PCM of 8000, 16000 or 24000 Hz, got {sample_rate!r} Hz; set it at the vendor")
    return Coding("l16", sample_rate, is_big_endian)


def _swapped(data: bytes) -> bytes:
    swapped = bytearray(data)
    swapped[0::2], swapped[1::2] = data[1::2], data[0::2]
    return bytes(swapped)
