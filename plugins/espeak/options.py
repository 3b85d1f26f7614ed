"""TTSOptions: the voice's sound beyond rate and pitch, and the limits of its helper process."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSOptions:
    """Rarely changed settings of `espeak.TTS`.

    Each option: docs/options.md.
    """

    volume: int = 100
    """0 … 200; 100 is espeak's normal."""
    start_timeout: float = 5.0
    """Seconds that the helper process may take to start."""
    chunk_timeout: float = 5.0
    """Seconds that the helper may take for its next message while it speaks."""
    close_timeout: float = 1.0
    """Seconds for the helper to end on its own before it is killed."""

    def __post_init__(self) -> None:
        if not 0 <= self.volume <= 200:
            raise ConfigurationError(f"need 0 <= volume <= 200, got {self.volume!r}")
        if min(self.start_timeout, self.chunk_timeout, self.close_timeout) <= 0:
            raise ConfigurationError(
                "need start_timeout, chunk_timeout and close_timeout > 0 s, got "
                f"{self.start_timeout!r}, {self.chunk_timeout!r}, {self.close_timeout!r}"
            )
