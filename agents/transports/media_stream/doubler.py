"""Doubler: 8 kHz to 16 kHz with a delay of less than a millisecond. numpy is loaded on first use.

The stream's samples stay as they are; between each two of them stands the value of a half-band low-pass.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SIDE = 12
"""Samples of the input on each side of a new one: flat to 3.4 kHz, the band of a telephone, and 50 dB above 4.6 kHz."""


class Doubler:
    """One stream of 16-bit mono PCM."""

    def __init__(self) -> None:
        from vivavoce.pipelines.core.native_threads import numpy as np

        self._past: npt.NDArray[np.float32] = np.zeros(2 * SIDE - 1, np.float32)
        at = [side + 0.5 for side in range(SIDE)]
        half = [
            math.sin(math.pi * x) / (math.pi * x) * (0.54 + 0.46 * math.cos(math.pi * x / (SIDE + 0.5))) for x in at
        ]
        taps = np.array(half[::-1] + half, np.float32)
        self._taps: npt.NDArray[np.float32] = taps / taps.sum()

    def push(self, pcm: bytes) -> bytes:
        """Return twice as many samples, of which the last come with the next piece: 12 of the input, 1.5 ms."""
        from vivavoce.pipelines.core.native_threads import numpy as np

        samples = np.concatenate([self._past, np.frombuffer(pcm, np.int16).astype(np.float32)])
        self._past = samples[-(2 * SIDE - 1) :]
        between = np.convolve(samples, self._taps, "valid")
        doubled = np.empty(2 * len(between), np.float32)
        doubled[0::2] = samples[SIDE - 1 : SIDE - 1 + len(between)]
        doubled[1::2] = between
        out: bytes = np.clip(np.rint(doubled), -32768, 32767).astype(np.int16).tobytes()
        return out
