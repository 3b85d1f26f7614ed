"""TTSOptions: the rarely changed settings of `cartesia.TTS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_number, check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.cartesia.models import BEFORE_CONTROLS, EMOTIONS, LANGUAGES, SAMPLE_RATES


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSOptions:
    """Rarely changed settings of `cartesia.TTS`. The server decides a setting that is None.

    Each option: docs/options.md.
    """

    speed: float | None = None
    """How fast the voice speaks, 0.6 … 1.5; 1 is normal."""
    volume: float | None = None
    """How loud it speaks, 0.5 … 2; 1 is normal."""
    emotion: str | None = None
    """Such as "calm" or "sympathetic"; a guide, which the vendor's voices with the tag "Emotive" follow best."""
    pronunciation: str | None = None
    """The id of a pronunciation dictionary that you have made at the vendor (`pronunciation_dict_id`)."""
    sample_rate: int = 24000
    """Hz of the audio: 8000, 16000, 22050, 24000, 44100 or 48000."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        for name, least, most in (("speed", 0.6, 1.5), ("volume", 0.5, 2.0)):
            check_number(name, value := getattr(self, name), at_least=least, or_none=True)
            if value is not None and value > most:
                raise ConfigurationError(f"need {name} <= {most:g}, got {value!r}")
        if self.emotion is not None and self.emotion not in EMOTIONS:
            raise ConfigurationError(f"emotion must be None or one of {', '.join(EMOTIONS)}; got {self.emotion!r}")
        if self.pronunciation is not None and not check_text("pronunciation", self.pronunciation):
            raise ConfigurationError("pronunciation must be None or the id of a dictionary, got ''")
        if self.sample_rate not in SAMPLE_RATES:
            raise ConfigurationError(f"sample_rate must be one of {SAMPLE_RATES} Hz, got {self.sample_rate!r}")

    def check_model(self, model: str) -> None:
        """Refuse settings that have no effect on this model.

        Raises:
            ConfigurationError: It is older than they are.
        """
        asked = [name for name in ("speed", "volume", "emotion", "pronunciation") if getattr(self, name) is not None]
        if asked and model.startswith(BEFORE_CONTROLS):
            raise ConfigurationError(f"{' and '.join(asked)} need the model sonic-3 or a newer one, got {model!r}")


def check_kind(model: str, others: Mapping[str, tuple[str, ...]], other: str) -> None:
    """Refuse a model of the vendor's other kind of component.

    Args:
        others: The models of that kind.
        other: Its class.
    Raises:
        ConfigurationError: It is one of them.
    """
    if model in others:
        raise ConfigurationError(f"model {model!r} is one of {other}; use that class for it, or give another model")


def check_language(model: str, language: str, models: Mapping[str, tuple[str, ...]] = LANGUAGES) -> None:
    """Refuse a language that the model has not.

    Args:
        models: Model -> its languages.
    Raises:
        ConfigurationError: It has it not, or the text is no language's code.
    """
    known = models.get(model)
    if known is not None and language not in known:
        others = "" if len(known) > 1 else f"; others are in {', '.join(one for one in models if one != model)}"
        raise ConfigurationError(f"the languages of {model} are {', '.join(known)}; got {language!r}{others}")
    if not (language.isascii() and language.replace("-", "").isalpha()):
        raise ConfigurationError(f"language must be a code such as 'en', got {language!r}")
