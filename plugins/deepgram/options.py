"""STTOptions: rarely changed settings of the Nova recognisers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_items, check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions

LEAST_UTTERANCE_END = 1.0
"""Seconds, by https://developers.deepgram.com/docs/utterance-end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `deepgram.STT`.

    Each option: docs/options.md.
    """

    key_terms: tuple[str, ...] = ()
    """Words, names and phrases to expect; the Nova-3 models take them, 500 tokens at most."""
    diarize: bool = False
    """Whether to tell speakers apart."""
    endpointing: float | None = 0.025
    """Seconds of silence after which the service settles its words; None: it does not. The end of the turn is decided
    here, so that a short one costs no answer."""
    utterance_end: float | None = 1.0
    """Seconds without a word after which an utterance is over even if noise goes on, at least 1; None: it is not."""
    punctuate: bool = True
    """Whether the transcript has punctuation and capitals."""
    smart_format: bool = False
    """Whether numbers, dates and addresses are written as such; English waits for whole ones."""
    filler_words: bool = True
    """Whether "uh" and "um" are words: they show that the turn goes on."""
    numerals: bool = False
    """Whether numbers are written in digits."""
    profanity_filter: bool = False
    """Whether curses are masked."""
    redact: tuple[str, ...] = ()
    """Kinds of information that the transcript masks, such as `"pci"`, `"numbers"`."""
    tags: tuple[str, ...] = ()
    """Labels of the requests in the service's reports of usage."""
    opt_out: bool = False
    """Whether the audio is kept out of the vendor's model improvement program; it changes the price."""
    extra_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the request without an option here, such as `dictation`; they override the options."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""
    reopening: ReopeningOptions = field(default_factory=ReopeningOptions)
    """How a lost connection is opened again."""

    def __post_init__(self) -> None:
        check_number("endpointing", self.endpointing, at_least=0, or_none=True, unit="s")
        check_number("utterance_end", self.utterance_end, at_least=LEAST_UTTERANCE_END, or_none=True, unit="s")
        check_terms(self.key_terms)


def check_terms(terms: tuple[str, ...]) -> None:
    """Refuse key terms that are no texts, or empty.

    Raises:
        ConfigurationError: There is one.
    """
    check_items("key_terms", terms, str)
    if any(not term.strip() for term in terms):
        raise ConfigurationError("key_terms must be words or phrases, got an empty one")
