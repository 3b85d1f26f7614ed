"""Denoising: the stage of a denoiser, which is bypassed from its first failure on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from vivavoce.pipelines.core.boundary import as_provider_error, close_stream, provider_errors
from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.denoise.base import Denoiser, DenoiseStream
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler

logger = logging.getLogger(__name__)


class Denoising:
    """Cleans frames until the denoiser fails; later frames pass as they are.

    Args:
        input_rate: Hz of the frames pushed; the returned frames have the denoiser's rate.
        emit: Receives the failure, once.
    """

    def __init__(self, denoiser: Denoiser, input_rate: int, emit: Callable[[PipelineEvent], None]) -> None:
        self._denoiser = denoiser
        self._provider = denoiser.provider
        self._emit = emit
        rate = denoiser.capabilities.sample_rate
        self._resampler = None if rate == input_rate else Resampler(input_rate, rate)
        self._delay = denoiser.capabilities.delay
        self._stream: DenoiseStream | None = None

    @property
    def delay(self) -> float:
        """Seconds by which frames are late: by the denoiser, and by the change of their rate."""
        return self._delay + (0.0 if self._resampler is None else self._resampler.held)

    def __repr__(self) -> str:
        return f"Denoising({self._provider})"

    def open(self) -> None:
        """Open the denoiser's stream.

        Raises:
            ProviderError: It cannot be opened.
        """
        with provider_errors(self._provider):
            self._stream = self._denoiser.open()

    def push(self, frame: AudioFrame) -> AudioFrame:
        """Return the frame at the denoiser's rate, cleaned while the denoiser works.

        The frame may be empty while the resampler looks ahead.
        """
        if self._resampler is not None:
            frame = self._resampler.push(frame)
            if not frame.data:
                return frame
        if self._stream is None:
            return frame
        try:
            cleaned = self._stream.push(frame)
            self._check(cleaned, frame)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the denoiser's code: it is left out from here on
            failure = as_provider_error(error, self._provider)
            logger.warning("the denoiser is left out: %s", failure)
            self.close()
            self._delay = 0.0
            self._emit(PipelineFailed(failure, True, "denoise"))
            return frame
        return cleaned

    def _check(self, cleaned: object, frame: AudioFrame) -> None:
        if not isinstance(cleaned, AudioFrame):
            raise ProviderProtocolError(f"needed an AudioFrame, got {type(cleaned).__name__}", provider=self._provider)
        wanted, got = (frame.sample_rate, frame.samples), (cleaned.sample_rate, cleaned.samples)
        if wanted != got:
            problem = f"needed {wanted[1]} samples of {wanted[0]} Hz, as they came, got {got[1]} of {got[0]} Hz"
            raise ProviderProtocolError(problem, provider=self._provider)

    def close(self) -> None:
        """Close the stream; if that fails, the stream is abandoned."""
        stream, self._stream = self._stream, None
        if stream is not None:
            close_stream(stream, self._provider)
