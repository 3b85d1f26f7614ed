"""The tones of telephone keys (DTMF) as audio, for lines that have no message for keys.

Source: ITU-T Q.23 (frequencies), Q.24 (tones and pauses of at least 40 ms; ours are longer, since a codec blurs them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.agents.telephony.key_entry import KEYS
from vivavoce.pipelines.media.frame import AudioFrame

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

RATE = 16000
TONE = 0.1
GAP = 0.1
EDGE = 0.005
"""Seconds in which a tone rises and falls, so that it does not click."""
AMPLITUDE = 8000.0
"""Of each of the two frequencies: together -9 dBFS at most, which survives G.711."""
LOW = (697.0, 770.0, 852.0, 941.0)
HIGH = (1209.0, 1336.0, 1477.0, 1633.0)
ROWS = ("123A", "456B", "789C", "*0#D")
PAIRS = {key: (LOW[row], HIGH[column]) for row, keys in enumerate(ROWS) for column, key in enumerate(keys)}
assert set(PAIRS) == set(KEYS)


def key_tones(keys: str) -> AudioFrame:
    """Return the tones of the keys, each with a gap behind it, as 16 kHz mono PCM."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    gap = np.zeros(round(GAP * RATE), np.int16)
    pieces = [piece for key in keys for piece in (_tone(*PAIRS[key]), gap)]
    return AudioFrame(np.concatenate(pieces).tobytes(), RATE)


def _tone(low: float, high: float) -> npt.NDArray[np.int16]:
    from vivavoce.pipelines.core.native_threads import numpy as np

    times = np.arange(round(TONE * RATE)) / RATE
    edge = np.minimum(1.0, np.minimum(times, times[::-1]) / EDGE)
    wave = AMPLITUDE * edge * (np.sin(2 * np.pi * low * times) + np.sin(2 * np.pi * high * times))
    samples: npt.NDArray[np.int16] = wave.astype(np.int16)
    return samples
