"""STTOptions: the pre-roll of an utterance, limits, extra pronunciations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.pipelines.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `pocketsphinx.STT`.

    Each option: docs/options.md.
    """

    pre_roll: float = 0.2
    """Seconds of audio before the onset that an utterance begins with."""
    max_backlog: float = 10.0
    """Seconds of audio that may wait for the decoder; beyond that the oldest is dropped and counted."""
    open_timeout: float = 10.0
    """Seconds that loading the decoder may take."""
    close_timeout: float = 2.0
    """Seconds to wait for the decoder's thread to end."""
    pronunciations: Mapping[str, str] = field(default_factory=dict)
    """Words that the dictionary lacks, as phones of CMUdict: `{"okonomiyaki": "OW K OW N OW M IY Y AA K IY"}`."""

    def __post_init__(self) -> None:
        if self.pre_roll < 0:
            raise ConfigurationError(f"need pre_roll >= 0 s, got {self.pre_roll!r}")
        if min(self.max_backlog, self.open_timeout, self.close_timeout) <= 0:
            raise ConfigurationError(
                "need max_backlog, open_timeout and close_timeout > 0 s, got "
                f"{self.max_backlog!r}, {self.open_timeout!r}, {self.close_timeout!r}"
            )
