"""TTSOptions and STTOptions: rarely changed settings of the voices and of the recogniser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice, check_items, check_number, check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.plugins.elevenlabs.models import DIALOGUE_MODELS, LANGUAGES, SAMPLE_RATES, WITHOUT_NORMALIZATION

MAX_TERMS, MAX_TERM = 50, 20
"""Key terms of a session, and characters of one (elevenlabs 2.78.0, `realtime/scribe.py`)."""

Normalization = Literal["auto", "on", "off"]
Commit = Literal["manual", "vad"]


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """A version of a pronunciation dictionary that you have made at the vendor."""

    dictionary: str
    """Its id (`pronunciation_dictionary_id`)."""
    version: str
    """The id of the version (`version_id`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSOptions:
    """Rarely changed settings of `elevenlabs.TTS`. A setting that is None is the voice's own.

    Each option: docs/options.md.
    """

    speed: float | None = None
    """How fast the voice speaks, 0.7 … 1.2; 1 is normal."""
    stability: float | None = None
    """How much one answer sounds like the other, 0 … 1; less is livelier."""
    similarity: float | None = None
    """How close it stays to the recorded speaker, 0 … 1 (`similarity_boost`)."""
    style: float | None = None
    """How much the speaker's manner is exaggerated, 0 … 1; costs latency."""
    speaker_boost: bool | None = None
    """Whether the likeness is increased (`use_speaker_boost`); costs latency."""
    pronunciations: tuple[Pronunciation, ...] = ()
    """Pronunciation dictionaries, three at most."""
    normalization: Normalization = "auto"
    """Whether numbers, dates and the like are written out for the model; "on" is not for Flash and Turbo v2.5."""
    ssml: bool = False
    """Whether `<break>` and `<phoneme>` tags in the text are followed."""
    log: bool = True
    """Whether the vendor keeps the requests; False needs an enterprise account (`enable_logging`)."""
    sample_rate: int = 24000
    """Hz of the audio: 8000, 16000, 22050, 24000 or 44100, which needs a plan."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        ranges = (("speed", 0.7, 1.2), ("stability", 0, 1), ("similarity", 0, 1), ("style", 0, 1))
        for name, least, most in ranges:
            _check_range(name, getattr(self, name), least, most)
        check_choice("normalization", self.normalization, get_args(Normalization))
        check_items("pronunciations", self.pronunciations, Pronunciation)
        for one in self.pronunciations:
            if not (check_text("dictionary", one.dictionary) and check_text("version", one.version)):
                raise ConfigurationError(f"pronunciations need the ids of a dictionary and of its version, got {one!r}")
        if self.sample_rate not in SAMPLE_RATES:
            raise ConfigurationError(f"sample_rate must be one of {SAMPLE_RATES} Hz, got {self.sample_rate!r}")

    def check_model(self, model: str) -> None:
        """Refuse what the model has not.

        Raises:
            ConfigurationError: It belongs to another API, or has a setting not.
        """
        if model.startswith(DIALOGUE_MODELS):
            raise ConfigurationError(
                f"the model {model!r} has an API of its own, which is not supported; use one of {', '.join(LANGUAGES)}"
            )
        if self.normalization == "on" and model in WITHOUT_NORMALIZATION:
            raise ConfigurationError(
                f"{model} cannot normalise text; leave normalization out, or use eleven_multilingual_v2"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `elevenlabs.STT`. The server decides a setting that is None.

    Each option: docs/options.md.
    """

    key_terms: tuple[str, ...] = ()
    """Words, names and phrases to expect: 50 at most, of 20 characters at most; they cost extra."""
    commit: Commit = "manual"
    """Who settles words: "manual": the pipeline's VAD, at the end of speech; "vad": also the service, after a pause,
    so that a pipeline without a VAD has finals."""
    silence: float | None = None
    """Seconds of a pause after which the service settles words, 0.3 … 3; with `commit="vad"`."""
    speech_threshold: float | None = None
    """How loud speech must be, 0.1 … 0.9; with `commit="vad"`."""
    other_languages: tuple[str, ...] = ()
    """Further languages that may be spoken."""
    verbatim: bool = True
    """Whether "uh" and false starts are words: they show that the turn goes on."""
    log: bool = True
    """Whether the vendor keeps the requests; False needs an enterprise account (`enable_logging`)."""
    extra_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the request without an option here, such as `min_speech_duration_ms`; they override the options."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""
    reopening: ReopeningOptions = field(default_factory=ReopeningOptions)
    """How a lost connection is opened again."""

    def __post_init__(self) -> None:
        check_choice("commit", self.commit, get_args(Commit))
        _check_range("silence", self.silence, 0.3, 3.0)
        _check_range("speech_threshold", self.speech_threshold, 0.1, 0.9)
        for name in ("silence", "speech_threshold"):
            if getattr(self, name) is not None and self.commit != "vad":
                raise ConfigurationError(f"{name} needs commit='vad', got commit={self.commit!r}")
        check_items("other_languages", self.other_languages, str)
        check_terms(self.key_terms)


def check_terms(terms: tuple[str, ...]) -> None:
    """Refuse key terms that the service would refuse.

    Raises:
        ConfigurationError: There are too many, or one is empty or too long.
    """
    check_items("key_terms", terms, str)
    if len(terms) > MAX_TERMS:
        raise ConfigurationError(f"ElevenLabs takes {MAX_TERMS} key_terms at most, got {len(terms)}; leave some out")
    for term in terms:
        if not term.strip() or len(term) > MAX_TERM:
            raise ConfigurationError(f"ElevenLabs takes key_terms of 1 to {MAX_TERM} characters, got {term!r}")


def check_language(model: str, language: str) -> None:
    """Refuse a language that cannot be asked for.

    Raises:
        ConfigurationError: The model has it not, or goes by the text.
    """
    known = LANGUAGES.get(model)
    if known == ():
        raise ConfigurationError(f"{model} goes by the language of the text; leave language out, got {language!r}")
    if known is not None and language not in known:
        raise ConfigurationError(f"the languages of {model} are {', '.join(known)}; got {language!r}")
    check_code(language)


def check_code(language: str) -> None:
    """Refuse a text that is no language's code.

    Raises:
        ConfigurationError: It is none.
    """
    if not (language.isascii() and language.replace("-", "").isalpha()):
        raise ConfigurationError(f"language must be a code such as 'en', got {language!r}")


def _check_range(name: str, value: float | None, least: float, most: float) -> None:
    check_number(name, value, at_least=least, or_none=True)
    if value is not None and value > most:
        raise ConfigurationError(f"need {name} <= {most:g}, got {value!r}")
