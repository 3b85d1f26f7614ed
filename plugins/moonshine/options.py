"""STTOptions: how often interims come, and how sure the network must be."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `moonshine.STT`.

    Each option: docs/options.md.
    """

    interim_interval: float | None = 0.3
    """Seconds of speech between two interims, each of which recognises the utterance anew; None: no interims."""
    min_confidence: float = 0.45
    """The least mean probability of the words; less sure ones are dropped, as the network hears words in noise too."""

    def __post_init__(self) -> None:
        check_number("interim_interval", self.interim_interval, at_least=0.1, or_none=True, unit="s")
        check_number("min_confidence", self.min_confidence, at_least=0)
        if self.min_confidence > 1:
            raise ConfigurationError(f"need 0 <= min_confidence <= 1, got {self.min_confidence!r}")
