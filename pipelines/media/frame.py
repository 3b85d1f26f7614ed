"""AudioFrame and VideoFrame: the values that carry media."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vivavoce.pipelines.core.checks import check_text, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BYTES_PER_SAMPLE = 2
FRAME_SECONDS = 0.02
"""The length of a frame inside vivavoce: 20 ms."""


@dataclass(frozen=True, slots=True)
class AudioFrame:
    """A piece of audio: interleaved, little-endian, signed 16-bit PCM.

    Args:
        data: `samples * num_channels * 2` bytes.
        sample_rate: Hz.
        num_channels: 1 inside vivavoce; 2 at its edges.
    """

    data: bytes = field(repr=False)
    sample_rate: int
    num_channels: int = 1

    def __post_init__(self) -> None:
        rate, channels = self.sample_rate, self.num_channels
        if not isinstance(self.data, bytes):
            raise ConfigurationError(f"need data as bytes of 16-bit PCM, got {shown(self.data)}")
        if type(rate) is not int or rate < 1:
            check_whole("sample_rate", rate, at_least=1)
        if type(channels) is not int or channels < 1:
            check_whole("num_channels", channels, at_least=1)
        if len(self.data) % (BYTES_PER_SAMPLE * channels):
            raise ValueError(
                f"data must be whole samples of {channels} channel(s) of 16-bit PCM, got {len(self.data)} bytes; cut "
                "at a sample boundary"
            )

    @classmethod
    def silence(cls, seconds: float, sample_rate: int) -> AudioFrame:
        """Return `seconds` of mono silence."""
        return cls(bytes(BYTES_PER_SAMPLE * round(seconds * sample_rate)), sample_rate)

    @property
    def samples(self) -> int:
        """Samples per channel."""
        return len(self.data) // (BYTES_PER_SAMPLE * self.num_channels)

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.samples / self.sample_rate

    def to_numpy(self) -> npt.NDArray[np.int16]:
        """Return a read-only view, shape `(samples,)` for mono, else `(samples, num_channels)`."""
        from vivavoce.pipelines.core.native_threads import numpy as np

        array = np.frombuffer(self.data, dtype=np.int16)
        return array if self.num_channels == 1 else array.reshape(-1, self.num_channels)


@dataclass(frozen=True, slots=True)
class VideoFrame:
    """One picture, encoded (`image/jpeg`, `image/png`) as a model takes it."""

    data: bytes = field(repr=False)
    media_type: str
    width: int = 0
    height: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise ConfigurationError(f"need data as bytes of an encoded picture, got {shown(self.data)}")
        check_text("media_type", self.media_type, remedy="such as 'image/jpeg'")
