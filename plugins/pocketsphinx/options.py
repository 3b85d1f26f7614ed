"""STTOptions: the limit of the waiting audio, extra pronunciations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_number


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `pocketsphinx.STT`.

    Each option: docs/options.md.
    """

    max_backlog: float = 10.0
    """Seconds of audio that may wait for the decoder; beyond that the oldest is dropped and counted."""
    pronunciations: Mapping[str, str] = field(default_factory=dict)
    """Words that the dictionary lacks, as phones of CMUdict: `{"okonomiyaki": "OW K OW N OW M IY Y AA K IY"}`."""

    def __post_init__(self) -> None:
        check_number("max_backlog", self.max_backlog, above=0, unit="s")
