"""SpeakerQueue: holds the session's audio until the thread of the speakers takes it."""

from __future__ import annotations

import threading

from vivavoce.agents.transports.pacing import PacedQueue
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame


class SpeakerQueue(AudioSink):
    """A queue between the session and a device that takes audio when it needs some.

    Audio that the device has taken still sounds for a block or so: the clock counts it out, and `clear` cannot take it
    back. The delay of the hardware is not known here; the position is early by its latency.

    Args:
        clock: Counts out the samples that the device has taken.
        sample_rate: Hz.
    """

    def __init__(self, clock: Clock, *, sample_rate: int) -> None:
        self._capabilities = SinkCapabilities(sample_rate=sample_rate, exact_position=False)
        self._waiting = bytearray()
        self._taken = 0
        self._sounding = PacedQueue(clock, sample_rate)
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._capabilities

    def write(self, frame: AudioFrame) -> None:
        rate = self._capabilities.sample_rate
        if frame.sample_rate != rate or frame.num_channels != 1:
            raise ConfigurationError(
                f"the speakers take mono audio of {rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample it first"
            )
        with self._lock:
            self._waiting += frame.data

    def queued(self) -> int:
        with self._lock:
            return len(self._waiting) // BYTES_PER_SAMPLE + self._taken + self._sounding.queued()

    def clear(self) -> int:
        with self._lock:
            dropped = len(self._waiting) // BYTES_PER_SAMPLE
            self._waiting.clear()
            return dropped

    def take(self, samples: int) -> bytes:
        """Return the next samples, filled up with silence; from any thread."""
        size = BYTES_PER_SAMPLE * samples
        with self._lock:
            data = bytes(self._waiting[:size])
            del self._waiting[:size]
            self._taken += len(data) // BYTES_PER_SAMPLE
        return data.ljust(size, b"\0")

    def count_out(self) -> None:
        """Begin to count out the samples that the device has taken; call it on the session's loop, whose clock it
        needs.
        """
        with self._lock:
            if self._taken:
                self._sounding.add(self._taken)
            self._taken = 0
