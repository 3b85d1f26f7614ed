"""Volume of 16-bit PCM: linear ramps for fades, with numpy loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def ramp(data: bytes, start: float, end: float) -> bytes:
    """Return mono 16-bit PCM with a gain that changes linearly from `start` to `end` over its samples."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    samples = np.frombuffer(data, dtype=np.int16)
    gains = np.linspace(start, end, num=len(samples), dtype=np.float32)
    faded: bytes = np.clip(samples * gains, -32768, 32767).astype(np.int16).tobytes()
    return faded


class Gain:
    """A gain that moves linearly, sample by sample, to its latest target."""

    def __init__(self, value: float = 0.0) -> None:
        self.target = value
        """The target."""
        self._left = 0
        self._step = 0.0

    @property
    def value(self) -> float:
        """The present gain."""
        return self.target - self._step * self._left

    def move_to(self, target: float, samples: int) -> None:
        """Move to `target` within `samples`; at once if that is 0."""
        if target == self.target:
            return
        self._step = (target - self.value) / samples if samples else 0.0
        self.target, self._left = target, samples

    def take(self, samples: int) -> float | npt.NDArray[np.float32]:
        """Return the gains of the next samples: one number if the gain does not move."""
        if not self._left:
            return self.target
        from vivavoce.pipelines.core.native_threads import numpy as np

        moving = min(samples, self._left)
        gains = np.full(samples, self.target, dtype=np.float32)
        gains[:moving] = self.value + self._step * np.arange(1, moving + 1, dtype=np.float32)
        self._left -= moving
        return gains
