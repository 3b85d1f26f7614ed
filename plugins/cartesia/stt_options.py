"""STTOptions: the rarely changed settings of `cartesia.STT`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_items, check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions

MOST_TERMS, MOST_TERM_CHARACTERS = 100, 1200
"""Source: https://docs.cartesia.ai/use-the-api/stt/keyterms."""

RANGES = {
    "start_threshold": (0.8, 0.5, 0.9),
    "eager_end_threshold": (0.4, 0.3, 0.6),
    "end_threshold": (0.2, 0.05, 0.5),
    "end_timeout": (5.6, 0.64, 11.2),
}
"""Setting of turns -> the service's own value, the least and the greatest one. Source: cartesia 4.2.0,
`types/stt/auto_finalize_websocket_params.py`.
"""

WHISPER = "ink-whisper"
"""The beginning of the models that neither decide turns nor take key terms, and whose words come with times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `cartesia.STT`. The service decides a threshold that is None.

    Each option: docs/options.md.
    """

    decides_turns: bool | None = None
    """Whether the model decides the ends of turns; False: the pipeline's VAD and turn detector do. None: it does if it
    can, as ink-2 can."""
    start_threshold: float | None = None
    """Likelihood of speech above which a turn begins, 0.5 … 0.9."""
    eager_end_threshold: float | None = None
    """Likelihood of further speech below which an answer is begun out of sight, 0.3 … 0.6."""
    end_threshold: float | None = None
    """Likelihood of further speech below which a turn is over, 0.05 … 0.5."""
    end_timeout: float | None = None
    """Seconds of silence that end any turn, 0.64 … 11.2."""
    key_terms: tuple[str, ...] = ()
    """Words, names and phrases to expect; ink-2 takes them, 100 of 1200 characters in all."""
    extra_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the request without an option here, such as `min_volume` of ink-whisper; they override the
    options."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""
    reopening: ReopeningOptions = field(default_factory=lambda: ReopeningOptions(speed=2.0))
    """How a lost connection is opened again; the service wants audio about as fast as it is spoken."""

    def __post_init__(self) -> None:
        for name, (_, least, most) in RANGES.items():
            check_number(name, value := getattr(self, name), at_least=least, or_none=True)
            if value is not None and value > most:
                raise ConfigurationError(f"need {name} <= {most:g}, got {value!r}")
        start, eager, end = (
            default if (given := getattr(self, name)) is None else given
            for name, (default, _, _) in list(RANGES.items())[:3]
        )
        if not end < eager < start:
            raise ConfigurationError(
                f"need end_threshold < eager_end_threshold < start_threshold, got {end:g}, {eager:g} and {start:g}"
            )
        check_terms(self.key_terms)

    def check_model(self, model: str) -> None:
        """Refuse settings that have no effect on this model.

        Raises:
            ConfigurationError: It does not decide turns, or takes no key terms.
        """
        asked = [name for name in RANGES if getattr(self, name) is not None]
        asked += ["decides_turns"] if self.decides_turns else []
        if asked and self.decides_turns is False:
            raise ConfigurationError(f"{' and '.join(asked)} need decides_turns, got False; leave them out")
        asked += ["key_terms"] if self.key_terms else []
        if asked and model.startswith(WHISPER):
            raise ConfigurationError(f"{' and '.join(asked)} need the model ink-2, got {model!r}")


def check_terms(terms: tuple[str, ...]) -> None:
    """Refuse key terms that are no texts, empty, or more than the service takes.

    Raises:
        ConfigurationError: They are.
    """
    check_items("key_terms", terms, str)
    if any(not term.strip() for term in terms):
        raise ConfigurationError("key_terms must be words or phrases, got an empty one")
    size = len("".join(terms))
    if len(terms) > MOST_TERMS or size > MOST_TERM_CHARACTERS:
        raise ConfigurationError(
            f"key_terms may be {MOST_TERMS} of {MOST_TERM_CHARACTERS} characters in all, got {len(terms)} of {size}"
        )
