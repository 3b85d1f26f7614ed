"""STTOptions: precision, threads and search of Whisper."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_number, check_text, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `faster_whisper.STT`.

    Each option: docs/options.md.
    """

    compute_type: str = "int8"
    """CTranslate2's precision, such as "int8" or "float32"."""
    threads: int = 1
    """CPU threads of one utterance."""
    beam_size: int = 1
    """Hypotheses that are followed; more take longer and err a little less."""
    max_no_speech: float = 0.6
    """Words that Whisper takes for silence with a higher probability are dropped."""

    def __post_init__(self) -> None:
        check_text("compute_type", self.compute_type)
        check_whole("threads", self.threads, at_least=1)
        check_whole("beam_size", self.beam_size, at_least=1)
        check_number("max_no_speech", self.max_no_speech, at_least=0)
        if self.max_no_speech > 1:
            raise ConfigurationError(f"need 0 <= max_no_speech <= 1, got {self.max_no_speech!r}")
