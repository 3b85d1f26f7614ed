"""Volume of 16-bit PCM: linear ramps for fades, with numpy loaded on first use."""

from __future__ import annotations


def ramp(data: bytes, start: float, end: float) -> bytes:
    """Return mono 16-bit PCM with a gain that goes linearly from `start` to `end` over its samples."""
    import numpy as np

    samples = np.frombuffer(data, dtype=np.int16)
    gains = np.linspace(start, end, num=len(samples), dtype=np.float32)
    faded: bytes = np.clip(samples * gains, -32768, 32767).astype(np.int16).tobytes()
    return faded
