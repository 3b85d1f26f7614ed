"""The keys in a telephone's audio, found as exchanges do: by the eight frequencies of ITU-T Q.23."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kit.line.baresip import RATE

LOW = np.array([697.0, 770.0, 852.0, 941.0])
HIGH = np.array([1209.0, 1336.0, 1477.0, 1633.0])
KEYS = ("123A", "456B", "789C", "*0#D")
FRAME = RATE // 50
LEAST = 2
"""Frames of 20 ms in a row that make a key."""
SHARE = 0.7
"""Of a frame's energy that is at the two frequencies of a key."""


def keys_heard(samples: npt.NDArray[np.int16]) -> str:
    """Return the keys whose tones are in the audio of 8 kHz, in their order."""
    found, last, count = "", "", 0
    for start in range(0, len(samples) - FRAME, FRAME):
        key = _key(samples[start : start + FRAME].astype(np.float64))
        count = count + 1 if key == last else 1
        last = key
        if key and count == LEAST:
            found += key
    return found


def _key(frame: npt.NDArray[np.float64]) -> str:
    energy = float(np.sum(frame**2))
    if energy < FRAME * 500.0**2:
        return ""
    low, high = _powers(frame, LOW), _powers(frame, HIGH)
    row, column = int(np.argmax(low)), int(np.argmax(high))
    return KEYS[row][column] if low[row] + high[column] > SHARE * energy else ""


def _powers(frame: npt.NDArray[np.float64], hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the energy of the frame at each frequency."""
    turns = np.exp(-2j * np.pi * np.outer(hertz, np.arange(len(frame)) / RATE))
    powers: npt.NDArray[np.float64] = 2 * np.abs(turns @ frame) ** 2 / len(frame)
    return powers
