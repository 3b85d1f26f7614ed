"""Peaks: a recording's loudness over time, twenty values a second for each side, for the page's waveforms."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path

from vivavoce.pipelines.core.errors import ReportError
from vivavoce.pipelines.media.wav import WavDecoder

WINDOW = 0.05
"""Seconds of one value."""
_PIECE = 10.0
"""Seconds that are read at a time."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Waveforms of both sides, 0 … 1 of full scale, one value each `WINDOW`.

    Args:
        offset: Seconds of the session at the first value.
    """

    caller: tuple[float, ...]
    agent: tuple[float, ...]
    offset: float = 0.0


def read_peaks(path: Path, *, offset: float = 0.0) -> Peaks:
    """Return the peaks of a stereo WAV file, the caller on the left, the agent on the right.

    Raises:
        ReportError: It cannot be read, or is not stereo.
    """
    from vivavoce.pipelines.core.native_threads import numpy as np

    try:
        decoder = WavDecoder(str(path))
    except OSError as error:
        raise ReportError(f"cannot read '{path}': {error.strerror}") from error
    except (wave.Error, EOFError) as error:
        raise ReportError(
            f"'{path}' is no WAV file ({error or 'it is cut off'}); give a recording of the call"
        ) from error
    sides: list[list[float]] = [[], []]
    try:
        window = round(WINDOW * decoder.sample_rate)
        while (frame := decoder.read(window * round(_PIECE / WINDOW))).samples:
            if frame.num_channels != 2:
                raise ReportError(
                    f"'{path}' has {frame.num_channels} channel(s), needed 2: the caller left, the agent right"
                )
            samples = np.abs(frame.to_numpy().astype(np.int32))
            samples = np.pad(samples, ((0, -len(samples) % window), (0, 0)))
            loudest = samples.reshape(-1, window, 2).max(axis=1) / 32768
            for side in (0, 1):
                sides[side].extend(np.round(loudest[:, side], 3).tolist())
    finally:
        decoder.close()
    return Peaks(tuple(sides[0]), tuple(sides[1]), offset)
