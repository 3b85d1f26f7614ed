"""PacedQueue: counts the samples left in a device that plays at a steady rate."""

from __future__ import annotations

from vivavoce.pipelines.core.clock import Clock


class PacedQueue:
    """Counts queued samples; the clock counts them out.

    Args:
        clock: Paces the playing.
        sample_rate: Hz.
    """

    def __init__(self, clock: Clock, sample_rate: int) -> None:
        self._clock = clock
        self._rate = sample_rate
        # A run is audio played without a gap; counting from its beginning keeps rounding errors from adding up.
        self._run_began = 0.0
        self._run_samples = 0

    def add(self, samples: int, *, began: float | None = None) -> float:
        """Queue `samples`; return when the first of them is played. Into an empty queue, that is now, or `began`."""
        if self.queued() == 0:
            self._run_began = self._clock.now() if began is None else began
            self._run_samples = 0
        begins = self._run_began + self._run_samples / self._rate
        self._run_samples += samples
        return begins

    def queued(self) -> int:
        """Return the samples not played yet."""
        if self._run_samples == 0:
            return 0
        return max(0, self._run_samples - round((self._clock.now() - self._run_began) * self._rate))

    def clear(self) -> int:
        """Drop the queued samples; return their number."""
        dropped = self.queued()
        self._run_samples = 0
        return dropped
