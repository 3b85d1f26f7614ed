"""ToneDetector: finds pure tones of any frequency in audio, such as the beep of a voicemail. No clock and no I/O.

A tone has nearly all energy at one frequency, which does not change: voices have harmonics, keys and the signals of a
line have two frequencies. numpy is loaded on first use.

Source: the frequencies and durations of beeps as LumenVox's detector and carriers have them: 70 Hz to 4 kHz, 70 ms to
1.5 s, with silence behind the tone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WINDOW = 2 * FRAME_SECONDS
"""Seconds of one look; the next one is a frame later."""
BIN = 15.625
"""Hz of one bin of the spectrum: 512 bins at 8 kHz."""
NEAR = 4
"""Bins on each side of the peak that hold a tone's energy."""
SHARE = 0.85
"""The part of the energy that a tone has there at least."""
SECOND = 10**-1.2
"""The power of any other peak, at most, beside that of the tone: -12 dB."""
LOWEST, HIGHEST = 100.0, 4000.0
"""Hz between which energy counts."""
BLOCK = 0.005
"""Seconds of the pieces of a window whose loudness is compared: two frequencies close to each other beat."""
EVEN = 0.2
"""The energy of the quietest piece of a tone, at least, by that of the loudest."""
QUIETEST = 10 ** (-40 / 20) * (1 << 15)
"""Root mean square of the quietest tone: -40 dBFS."""
END_LOOKS = 5
"""Looks without a tone, 100 ms, that end a row of tones; up to 30 ms are within the signals of a line."""
SHORTEST = 0.08
"""Seconds of the shortest tone; shorter ones are left out."""


@dataclass(frozen=True, slots=True)
class Tone:
    """A tone.

    Args:
        frequency: Hz.
        seconds: Its length, to about 40 ms.
    """

    frequency: float
    seconds: float


class _Run:
    """A tone that goes on: the looks at which it was there."""

    def __init__(self, peak: float) -> None:
        self.peak = peak
        self._sum = peak
        self._looks = 1

    def add(self, peak: float) -> None:
        self.peak = peak
        self._sum += peak
        self._looks += 1

    @property
    def tone(self) -> Tone:
        return Tone(self._sum / self._looks * BIN, (self._looks - 1) * FRAME_SECONDS + WINDOW)


class ToneDetector:
    """Finds tones in mono audio of any rate from 8 kHz on; about 50 us of work a frame of 20 ms."""

    def __init__(self) -> None:
        self._rate = 0
        self._hop = 0
        self._window: npt.NDArray[np.float64] | None = None
        self._samples: npt.NDArray[np.int16] | None = None
        self._band = slice(0)
        self._run: _Run | None = None
        self._row: list[Tone] = []
        """The tones that have ended, each less than 100 ms before the next one."""
        self._looks_without = 0

    def push(self, frame: AudioFrame) -> list[tuple[Tone, ...]]:
        """Take the next audio; return the rows of tones that have ended, which nearly always are none.

        A row has the tones that followed each other without a pause: a beep is a row of one, a melody is a longer one.
        It comes about 100 ms after its end.
        """
        from vivavoce.pipelines.core.native_threads import numpy as np

        if frame.sample_rate != self._rate or self._samples is None:
            self._take_rate(frame.sample_rate)
        assert self._samples is not None
        samples = np.concatenate((self._samples, frame.to_numpy()))
        size, at, rows = round(WINDOW * self._rate), 0, []
        while at + size <= len(samples):
            if (row := self._look(samples[at : at + size])) is not None:
                rows.append(row)
            at += self._hop
        self._samples = samples[at:]
        return rows

    def _take_rate(self, rate: int) -> None:
        from vivavoce.pipelines.core.native_threads import numpy as np

        self._rate, self._hop = rate, round(FRAME_SECONDS * rate)
        self._window = np.hanning(round(WINDOW * rate))
        self._samples = np.zeros(0, np.int16)
        self._band = slice(round(LOWEST / BIN), round(min(HIGHEST, rate / 2) / BIN))

    def _look(self, samples: npt.NDArray[np.int16]) -> tuple[Tone, ...] | None:
        """Look at one window; return the row of tones that is over."""
        peak = self._peak(samples)
        run = self._run
        if peak is None:
            self._looks_without += 1
            return self._end_row() if self._looks_without == END_LOOKS else None
        self._looks_without = 0
        if run is not None and abs(peak - run.peak) <= 1.0:
            run.add(peak)
        else:
            self._end_run()
            self._run = _Run(peak)
        return None

    def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is not None and (tone := run.tone).seconds >= SHORTEST - 1e-9:
            self._row.append(tone)

    def _end_row(self) -> tuple[Tone, ...] | None:
        self._end_run()
        row, self._row = self._row, []
        return tuple(row) or None

    def _peak(self, samples: npt.NDArray[np.int16]) -> float | None:
        """Return the bin of the tone in these samples, between two bins if need be; None if they hold something
        else."""
        from vivavoce.pipelines.core.native_threads import numpy as np

        sound = samples.astype(np.float64)
        if np.dot(sound, sound) < QUIETEST**2 * len(sound):
            return None
        assert self._window is not None
        spectrum = np.fft.rfft(sound * self._window, round(self._rate / BIN))
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        power[: self._band.start] = 0.0
        power = power[: self._band.stop]
        peak = int(power.argmax())
        near = slice(max(peak - NEAR, 0), peak + NEAR + 1)
        highest, whole, tone = power[peak], power.sum(), power[near].sum()
        left, right = np.sqrt(power[peak - 1 : peak + 2 : 2]) if 0 < peak < len(power) - 1 else (0.0, 0.0)
        power[near] = 0.0
        if tone < SHARE * whole or power.max() > SECOND * highest:
            return None
        block = round(BLOCK * self._rate)
        pieces = np.square(sound[block : 7 * block]).reshape(6, block).sum(1)
        if pieces.min() < EVEN * pieces.max():
            return None
        bent = left - 2 * np.sqrt(highest) + right
        return peak + (0.5 * float(left - right) / float(bent) if bent else 0.0)
