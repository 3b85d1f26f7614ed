"""DenoiseOptions: the stages of the audio processing."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.errors import ConfigurationError

RATES = (16000, 32000, 48000)
"""The rates in Hz at which WebRTC's audio processing works without internal resampling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoiseOptions:
    """The active stages, and their rate.

    Each option: docs/options.md.
    """

    noise_suppression: bool = True
    """Lower steady noise by 12 dB and more, with the high-pass filter in any case; costs 6 ms of delay."""
    high_pass_filter: bool = True
    """Remove the lowest frequencies: hum, rumble, a DC offset."""
    gain_control: bool = False
    """Bring speech to one loudness. It lifts noise as well; for callers who are too quiet for the recogniser."""
    sample_rate: int = 16000
    """Hz of the audio in and out, one of `RATES`. VAD and recognisers need 16000."""

    def __post_init__(self) -> None:
        if self.sample_rate not in RATES:
            raise ConfigurationError(f"sample_rate must be one of {RATES} Hz, got {self.sample_rate!r}")
        if not (self.noise_suppression or self.high_pass_filter or self.gain_control):
            raise ConfigurationError("needed at least one stage, got all three off; leave the denoiser out instead")
