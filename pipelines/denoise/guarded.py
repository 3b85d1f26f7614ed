"""GuardedDenoiser: one session's denoiser, left out from its first failure on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from vivavoce.pipelines.core.boundary import as_provider_error, close_stream, provider_errors
from vivavoce.pipelines.core.errors import ProviderError, ProviderProtocolError
from vivavoce.pipelines.denoise.base import Denoiser, DenoiseStream
from vivavoce.pipelines.media.frame import AudioFrame

logger = logging.getLogger(__name__)


class GuardedDenoiser:
    """Cleans frames while it can.

    Args:
        on_failure: Called once, with the failure from which on frames pass as they are.
    Raises:
        ProviderError: The denoiser cannot be opened.
    """

    def __init__(self, denoiser: Denoiser, on_failure: Callable[[ProviderError], None]) -> None:
        self._provider = denoiser.provider
        self._on_failure = on_failure
        self.delay = denoiser.capabilities.delay
        """Seconds by which frames lag."""
        self._stream: DenoiseStream | None
        with provider_errors(self._provider):
            self._stream = denoiser.open()

    def clean(self, frame: AudioFrame) -> AudioFrame:
        """Return the cleaned frame, or the frame itself once the denoiser has failed."""
        if self._stream is None:
            return frame
        try:
            cleaned = self._stream.push(frame)
            self._check(cleaned, frame)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the denoiser's code: it is left out from here on
            failure = as_provider_error(error, self._provider)
            logger.warning("the denoiser is left out: %s", failure)
            self.close()
            self.delay = 0.0
            self._on_failure(failure)
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
        """Free the stream; one that cannot be closed is left."""
        stream, self._stream = self._stream, None
        if stream is not None:
            close_stream(stream, self._provider)
