"""EnergyGate: the server's voice activity detection, by loudness alone."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.native_threads import numpy as np
from vivavoce.pipelines.testing.realtime_server.script import RATE, SAMPLE_BYTES

WINDOW = 0.02
"""Length of a window in seconds."""

LOUDNESS = 0.01
"""RMS of full scale that counts as speech at the protocol's default threshold of 0.5; it grows with the threshold."""

MIN_SPEECH = 0.06
"""Seconds of sound that begin speech: a click does not."""


@dataclass(frozen=True, slots=True)
class GateEvent:
    """Speech began or ended, at this many milliseconds of the session's audio."""

    is_start: bool
    at_ms: int


class EnergyGate:
    """Finds speech in PCM that comes in pieces of any size.

    Args:
        threshold: The protocol's, 0 … 1.
        silence: Seconds that end speech.
        start: Milliseconds of the session's audio before this gate's first sample.
    """

    def __init__(self, *, threshold: float = 0.5, silence: float = 0.5, start: int = 0) -> None:
        self._loudness = LOUDNESS * threshold / 0.5
        self._silence = silence
        self._rest = b""
        self._windows = 0
        self._start = start
        self._loud = 0.0
        self._quiet = 0.0
        self.is_speech = False

    def push(self, pcm: bytes) -> list[GateEvent]:
        """Take the next samples; return the changes of speech."""
        size = round(WINDOW * RATE) * SAMPLE_BYTES
        pcm = self._rest + pcm
        events = []
        for at in range(0, len(pcm) - size + 1, size):
            if (event := self._judge(pcm[at : at + size])) is not None:
                events.append(event)
        self._rest = pcm[len(pcm) // size * size :]
        return events

    def _judge(self, window: bytes) -> GateEvent | None:
        self._windows += 1
        samples = np.frombuffer(window, dtype="<i2").astype(np.float64) / 32768
        is_loud = bool(np.sqrt(np.mean(samples**2)) >= self._loudness)
        self._loud = self._loud + WINDOW if is_loud else 0.0
        self._quiet = 0.0 if is_loud else self._quiet + WINDOW
        if not self.is_speech and self._loud >= MIN_SPEECH - 1e-9:
            self.is_speech = True
            return GateEvent(True, self._now_ms() - round(self._loud * 1000))
        if self.is_speech and self._quiet >= self._silence - 1e-9:
            self.is_speech = False
            return GateEvent(False, self._now_ms())
        return None

    def _now_ms(self) -> int:
        return self._start + round(self._windows * WINDOW * 1000)
