"""STTOptions: rarely changed settings of the recognisers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice, check_items, check_number, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions

MOST_TERMS, LONGEST_TERM = 100, 50
"""Key terms, and characters of one. Source: https://www.assemblyai.com/docs/streaming/keyterms-prompting."""

Mode = Literal["", "min_latency", "balanced", "max_accuracy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `assemblyai.STT`.

    Each option: docs/options.md.
    """

    decides_turns: bool = True
    """Whether the service decides the ends of turns; else the pipeline's VAD and turn detector do, and its finals come
    at once."""
    min_silence: float | None = None
    """Seconds of silence from which on a turn that sounds complete ends; None: as the service has it, and 0.1 where it
    does not decide turns."""
    max_silence: float | None = None
    """Seconds of silence that end any turn, likewise."""
    end_threshold: float | None = None
    """Confidence that ends a turn, 0 … 1, of the models `"universal-streaming-…"`; None: as the service has it."""
    eager_threshold: float | None = None
    """Confidence in the end of a turn at which an answer is begun out of sight, 0 … 1; it costs answers that are thrown
    away. None: it is begun at the end of the turn."""
    format: bool = True
    """Whether the models `"universal-streaming-…"` write punctuation, capitals and numbers; the others always do. The
    answer begins before the formatted words have come."""
    mode: Mode = ""
    """What the Universal-3 models do better: `"min_latency"`, `"balanced"` or `"max_accuracy"`; empty: as the service
    has it."""
    key_terms: tuple[str, ...] = ()
    """Words, names and phrases to expect, at most 100 of at most 50 characters."""
    diarize: bool = False
    """Whether to tell speakers apart."""
    max_speakers: int | None = None
    """The most speakers to expect; with `diarize`."""
    extra_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the session without an option here, such as `prompt`, `voice_focus`, `vad_threshold`; they override
    the options."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""
    reopening: ReopeningOptions = field(default_factory=ReopeningOptions)
    """How a lost connection is opened again."""

    def __post_init__(self) -> None:
        check_number("min_silence", self.min_silence, at_least=0, or_none=True, unit="s")
        check_number("max_silence", self.max_silence, at_least=0, or_none=True, unit="s")
        if (self.min_silence or 0.0) > (self.max_silence or float("inf")):
            raise ConfigurationError(
                f"need min_silence <= max_silence (s), got {self.min_silence!r} and {self.max_silence!r}"
            )
        for name, value in (("end_threshold", self.end_threshold), ("eager_threshold", self.eager_threshold)):
            check_number(name, value, at_least=0, or_none=True)
            if (value or 0) > 1:
                raise ConfigurationError(f"need {name} <= 1, got {value!r}")
        if self.eager_threshold is not None and not self.decides_turns:
            raise ConfigurationError("eager_threshold needs decides_turns=True; leave it out")
        check_choice("mode", self.mode, get_args(Mode))
        check_whole("max_speakers", self.max_speakers, at_least=1, or_none=True)
        if self.max_speakers is not None and not self.diarize:
            raise ConfigurationError("max_speakers needs diarize=True; leave it out")
        check_terms(self.key_terms)


def check_terms(terms: tuple[str, ...]) -> None:
    """Refuse key terms that the service does not take.

    Raises:
        ConfigurationError: One is no text, empty or too long, or there are too many.
    """
    check_items("key_terms", terms, str)
    if any(not term.strip() for term in terms):
        raise ConfigurationError("key_terms must be words or phrases, got an empty one")
    if longest := [len(term) for term in terms if len(term) > LONGEST_TERM]:
        raise ConfigurationError(f"key_terms must have at most {LONGEST_TERM} characters each, got {max(longest)}")
    if len(terms) > MOST_TERMS:
        raise ConfigurationError(f"need at most {MOST_TERMS} key_terms, got {len(terms)}")
