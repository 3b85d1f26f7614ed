"""STTOptions and TTSOptions: the rarely changed settings of this plugin's components."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice, check_flag, check_items, check_number, check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.keys import checked_url
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions

Profanity = Literal["masked", "removed", "raw"]

SAMPLE_RATES = (8000, 16_000, 24_000, 48_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `azure.STT`.

    Each option: docs/options.md.
    """

    key_terms: tuple[str, ...] = ()
    """Words, names and phrases to expect: the service's phrase list, of 500 at most."""
    endpointing: float | None = 0.5
    """Seconds of silence after which the service settles a phrase, 0.1 … 5; None: as the service likes. A VAD in the
    pipeline settles it at the end of speech."""
    semantic: bool = False
    """Whether phrases end where their sense does, and not by silence alone; `endpointing` has no effect then."""
    diarize: bool = False
    """Whether to tell speakers apart."""
    profanity: Profanity = "raw"
    """Whether curses are written, masked with asterisks, or removed."""
    deployment: str = ""
    """The endpoint id of a custom speech model of yours."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""
    reopening: ReopeningOptions = field(default_factory=ReopeningOptions)
    """How a lost connection is opened again."""

    def __post_init__(self) -> None:
        check_number("endpointing", self.endpointing, at_least=0.1, or_none=True, unit="s")
        if self.endpointing is not None and self.endpointing > 5:
            raise ConfigurationError(f"need endpointing <= 5 (s), got {self.endpointing!r}")
        check_choice("profanity", self.profanity, get_args(Profanity))
        check_flag("semantic", self.semantic)
        check_flag("diarize", self.diarize)
        check_text("deployment", self.deployment)
        check_terms(self.key_terms)


def check_terms(terms: tuple[str, ...]) -> None:
    """Refuse key terms that are no texts, or empty.

    Raises:
        ConfigurationError: There is one.
    """
    check_items("key_terms", terms, str)
    if any(not term.strip() for term in terms):
        raise ConfigurationError("key_terms must be words or phrases, got an empty one")


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSOptions:
    """Rarely changed settings of `azure.TTS`. The service decides a setting that is None.

    Each option: docs/options.md.
    """

    rate: float | None = None
    """How fast the voice speaks, 0.5 … 2; 1 is normal."""
    pitch: str | None = None
    """As SSML has it, such as "+5%" or "low"."""
    volume: str | None = None
    """As SSML has it, such as "+10%" or "soft"."""
    style: str | None = None
    """A style or emotion that the voice has, such as "cheerful" or "customerservice"."""
    style_degree: float | None = None
    """How strong the style is, 0.01 … 2. It makes each sentence a document."""
    role: str | None = None
    """A role that the voice plays, such as "YoungAdultFemale". It makes each sentence a document."""
    lexicon: str | None = None
    """Address of a lexicon of pronunciations, which the service fetches. It makes each sentence a document."""
    deployment: str = ""
    """The deployment id of a custom voice of yours. It makes each sentence a document."""
    streams_text: bool = True
    """Whether the service gets text as it comes, as one speech; else each sentence is a document in SSML. A container
    takes documents only."""
    sample_rate: int = 24_000
    """Hz of the audio: 8000, 16000, 24000 or 48000."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        for name, least, most in (("rate", 0.5, 2.0), ("style_degree", 0.01, 2.0)):
            check_number(name, value := getattr(self, name), at_least=least, or_none=True)
            if value is not None and value > most:
                raise ConfigurationError(f"need {name} <= {most:g}, got {value!r}")
        for name in ("pitch", "volume", "style", "role"):
            value = getattr(self, name)
            if value is not None and not check_text(name, value):
                raise ConfigurationError(f"{name} must be None or a text, got ''")
        if self.lexicon is not None:
            checked_url(self.lexicon, "https://example.com/lexicon.xml")
        if (self.style_degree is not None or self.role is not None) and self.style is None:
            raise ConfigurationError("style_degree and role need a style, got none")
        check_text("deployment", self.deployment)
        check_flag("streams_text", self.streams_text)
        if self.sample_rate not in SAMPLE_RATES:
            raise ConfigurationError(f"sample_rate must be one of {SAMPLE_RATES} Hz, got {self.sample_rate!r}")

    @property
    def needs_documents(self) -> bool:
        """Whether there is a setting that only a document in SSML has."""
        only = (self.style_degree, self.role, self.lexicon, self.deployment or None)
        return not self.streams_text or any(value is not None for value in only)
