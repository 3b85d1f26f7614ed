"""Denoiser and DenoiseStream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.media.frame import AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoiseCapabilities:
    """The needs of a denoiser.

    Args:
        sample_rate: Hz of the audio in and out; the pipeline resamples.
        delay: Seconds by which the output lags the input.
    """

    sample_rate: int = 16000
    delay: float = 0.0


class DenoiseStream(ABC):
    """One session's denoiser.

    If `push()` raises, or returns something unexpected, the session hears the caller without the denoiser from then on.
    The call goes on.
    """

    @abstractmethod
    def push(self, frame: AudioFrame) -> AudioFrame:
        """Return the cleaned audio, of the same rate and the same number of samples. Must not block."""

    def close(self) -> None:
        """Free the stream."""


class Denoiser(Component, ABC):
    """Cleans the caller's audio before VAD, STT and realtime model hear it."""

    @property
    def capabilities(self) -> DenoiseCapabilities:
        """Read before opening."""
        return DenoiseCapabilities()

    @abstractmethod
    def open(self) -> DenoiseStream:
        """Return a stream for one session.

        Raises:
            ProviderError: The model cannot be loaded.
        """
