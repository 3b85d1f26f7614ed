"""Denoiser and its stream: frames of any length to blocks of 10 ms and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.denoise import base
from vivavoce.pipelines.denoise.base import DenoiseCapabilities
from vivavoce.pipelines.media.buffer import FrameChunker
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.plugins.apm.options import DenoiseOptions

if TYPE_CHECKING:
    from livekit import rtc

BLOCK_SECONDS = 0.01
"""The block length of WebRTC's audio processing."""

SUPPRESSION_DELAY = {16000: 0.006, 32000: 0.0061, 48000: 0.007}
"""Seconds of delay by noise suppression, per Hz: its windows, and above 16 kHz the band split. Measured."""

SPLIT_DELAY = {16000: 0.0, 32000: 0.0001, 48000: 0.001}
"""Seconds of delay by the high-pass filter alone; gain control has none."""


class Denoiser(base.Denoiser):
    """WebRTC's audio processing on the caller's audio; share one between sessions.

    Args:
        options: Which stages run, and at which rate.
    """

    provider = "apm"

    def __init__(self, *, options: DenoiseOptions | None = None) -> None:
        self._options = options or DenoiseOptions()

    @property
    def model(self) -> str:
        return "WebRTC audio processing (livekit)"

    @property
    def capabilities(self) -> DenoiseCapabilities:
        """The delay for frames of whole 10 ms; after a first frame of another length it is 10 ms longer."""
        options = self._options
        delays = SUPPRESSION_DELAY if options.noise_suppression else SPLIT_DELAY
        is_late = options.noise_suppression or options.high_pass_filter
        return DenoiseCapabilities(
            sample_rate=options.sample_rate, delay=delays[options.sample_rate] if is_late else 0.0
        )

    def open(self) -> DenoiseStream:
        """Return a stream for one session.

        Raises:
            ProviderError: The native library does not start.
        """
        from vivavoce.pipelines.core.native_threads import rtc

        options = self._options
        try:
            with native_threads.first_use("livekit.rtc"):
                module = rtc.AudioProcessingModule(
                    noise_suppression=options.noise_suppression,
                    high_pass_filter=options.high_pass_filter,
                    auto_gain_control=options.gain_control,
                )
        except Exception as error:  # noqa: BLE001 - the native library's errors derive from Exception directly
            raise ProviderError(f"livekit's audio processing would not start: {error}", provider="apm") from error
        return DenoiseStream(module, options.sample_rate)


class DenoiseStream(base.DenoiseStream):
    """One session's audio processing, with its estimate of the caller's noise."""

    def __init__(self, module: rtc.AudioProcessingModule, sample_rate: int) -> None:
        self._module: rtc.AudioProcessingModule | None = module
        self._rate = sample_rate
        self._blocks = FrameChunker(sample_rate, BLOCK_SECONDS)
        self._reserve = BYTES_PER_SAMPLE * (round(sample_rate * BLOCK_SECONDS) - 1)
        self._clean = bytearray()

    def push(self, frame: AudioFrame) -> AudioFrame:
        """Return the cleaned audio, of the same rate and the same number of samples: 0.04 ms of work for each 10 ms.

        Raises:
            ValueError: The frame's rate is not the capability's, or it is not mono.
            ConfigurationError: The stream is closed.
            ProviderError: The native library failed.
        """
        if frame.sample_rate != self._rate or frame.num_channels != 1:
            raise ValueError(
                f"apm.Denoiser needs mono frames of {self._rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample first"
            )
        for block in self._blocks.push(frame.data):
            self._clean += self._process(block)
        if len(self._clean) < len(frame.data):
            # A block is still open. With all but one of its samples in hand the lag has grown for good.
            self._clean[:0] = bytes(self._reserve)
        data = bytes(self._clean[: len(frame.data)])
        del self._clean[: len(frame.data)]
        return AudioFrame(data, self._rate)

    def _process(self, block: AudioFrame) -> bytearray:
        from vivavoce.pipelines.core.native_threads import rtc

        if self._module is None:
            raise ConfigurationError("needed an open stream, got one that is closed; open another one")
        data = bytearray(block.data)  # processed in place
        try:
            self._module.process_stream(rtc.AudioFrame(data, self._rate, 1, block.samples))
        except RuntimeError as error:
            raise ProviderError(f"livekit's audio processing failed: {error}", provider="apm") from error
        return data

    def close(self) -> None:
        """Free the native module."""
        self._module = None
