"""G.711: the sound of telephones, one byte a sample at 8 kHz, in its two laws. numpy is loaded on first use.

Source: ITU-T G.711 (11/88), tables 1a and 1b (A-law), 2a and 2b (mu-law).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Law = Literal["mulaw", "alaw"]
"""Mu-law: North America and Japan, and each media stream's default. A-law: the rest of the world's telephone legs."""
SAMPLE_RATE = 8000
SILENCE = {"mulaw": b"\xff", "alaw": b"\xd5"}
"""The code of the sample 0."""


def decode(data: bytes, law: Law) -> bytes:
    """Return 16-bit mono PCM of 8 kHz."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    pcm: bytes = _decoding(law)[np.frombuffer(data, np.uint8)].tobytes()
    return pcm


def encode(pcm: bytes, law: Law) -> bytes:
    """Return the codes of 16-bit mono PCM of 8 kHz; samples beyond the law's range get its loudest code."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    codes: bytes = _encoding(law)[np.frombuffer(pcm, np.uint16)].tobytes()
    return codes


@cache
def _decoding(law: Law) -> npt.NDArray[np.int16]:
    """Return the sample of each code."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    codes = np.arange(256, dtype=np.int32)
    if law == "mulaw":
        code = ~codes & 0xFF
        size = ((((code & 0x0F) << 3) + 0x84) << ((code >> 4) & 7)) - 0x84
        return np.where(code & 0x80, -size, size).astype(np.int16)
    code = codes ^ 0x55
    segment, step = (code >> 4) & 7, ((code & 0x0F) << 4) + 8
    size = np.where(segment == 0, step, (step + 0x100) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, size, -size).astype(np.int16)


@cache
def _encoding(law: Law) -> npt.NDArray[np.uint8]:
    """Return the code of each sample, by the sample's bits as an unsigned number."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    samples = np.arange(0x10000, dtype=np.uint16).view(np.int16).astype(np.int32)
    if law == "mulaw":
        # Biased by 33 of the law's 14 bits, each segment begins at a power of two.
        size = np.minimum(np.abs(samples) + 0x84, 0x7FFF)
        segment = np.floor(np.log2(size)).astype(np.int32) - 7
        code = segment << 4 | (size >> (segment + 3)) & 0x0F
        codes: npt.NDArray[np.uint8] = (~np.where(samples < 0, code | 0x80, code) & 0xFF).astype(np.uint8)
        return codes
    size = np.where(samples < 0, ~samples, samples)  # a negative sample's interval ends where the next one begins
    segment = np.maximum(np.floor(np.log2(np.maximum(size, 1))).astype(np.int32) - 7, 0)
    code = segment << 4 | (size >> np.maximum(segment + 3, 4)) & 0x0F
    codes = (np.where(samples < 0, code, code | 0x80) ^ 0x55).astype(np.uint8)
    return codes
