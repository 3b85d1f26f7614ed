"""Settings: the parameters of one session, checked as the service does, and changed by `UpdateConfiguration`.

Names and types: assemblyai 1.8.2, `streaming/v3/models.py` (`RealTimeSessionParameters`, `RealTimeParameters`). The
defaults of the silences: https://www.assemblyai.com/docs/streaming/turn-detection and livekit-plugins-assemblyai 1.8.9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vivavoce.plugins.assemblyai.models import FIRST_LANGUAGES, MODELS, PRO_MODELS, is_pro, languages_of

DEFAULT_MODEL = "universal-streaming-english"

SILENCES = {True: (100, 1000), False: (400, 1280)}
"""Whether a model is a Universal-3 one -> `min_turn_silence` and `max_turn_silence` (ms)."""

CONFIDENCE = 0.4
"""Least confidence that ends a turn of a Universal-Streaming model."""

TERM_LIMIT = 100
"""Key terms."""

LANGUAGE_LIMIT = 10
"""Languages to expect."""

PRO_ONLY = ("mode", "prompt", "agent_context", "language_codes", "continuous_partials", "interruption_delay")


class Refused(Exception):  # noqa: N818 - an answer rather than an error
    """The service refuses a setting; the text says why."""


class Settings:
    """The settings of one session.

    Args:
        query: The handshake's parameters; a name may have several values.
    Raises:
        Refused: One is invalid.
    """

    def __init__(self, query: Mapping[str, list[str]]) -> None:
        given: dict[str, Any] = {name: values[0] for name, values in query.items()}
        self.model: str = given.get("speech_model", DEFAULT_MODEL)
        if self.model not in MODELS and not is_pro(self.model):
            raise Refused(f"Invalid speech_model: {self.model}")
        if given.get("encoding", "pcm_s16le") != "pcm_s16le":
            raise Refused("This twin hears encoding=pcm_s16le only")
        rate = str(given.get("sample_rate", ""))
        if not rate.isdecimal() or not 8000 <= int(rate) <= 48_000:
            raise Refused(f"Invalid sample_rate: {rate or 'missing'}")
        self.rate = int(rate)
        self.is_pro = is_pro(self.model)
        self.formats = self.is_pro or _is_true(given.get("format_turns"))
        self.diarizes = _is_true(given.get("speaker_labels"))
        self.detects = _is_true(given.get("language_detection"))
        self.mode: str | None = given.get("mode")
        self.min_silence, self.max_silence = (value / 1000 for value in SILENCES[self.is_pro])
        self.confidence = CONFIDENCE
        self.interruption_delay = 0.5
        self.continues = not self.diarizes
        self.key_terms: list[str] = []
        self.languages: list[str] = []
        self.update(given)

    def update(self, told: Mapping[str, Any]) -> None:
        """Take parameters that may change within a session; others are passed over.

        Raises:
            Refused: One is invalid.
        """
        for name in PRO_ONLY if not self.is_pro else ():
            if name in told:
                raise Refused(f"{name} is only supported with the models {', '.join(PRO_MODELS)}")
        self.min_silence = _milliseconds(told, "min_turn_silence", self.min_silence)
        self.max_silence = max(self.min_silence, _milliseconds(told, "max_turn_silence", self.max_silence))
        self.interruption_delay = _milliseconds(told, "interruption_delay", self.interruption_delay)
        self.confidence = _number(told, "end_of_turn_confidence_threshold", self.confidence)
        if not 0 <= self.confidence <= 1:
            raise Refused("end_of_turn_confidence_threshold must be between 0 and 1")
        if "continuous_partials" in told:
            self.continues = _is_true(told["continuous_partials"])
        self.key_terms = _texts(told, "keyterms_prompt", self.key_terms)
        if len(self.key_terms) > TERM_LIMIT:
            raise Refused(f"keyterms_prompt accepts at most {TERM_LIMIT} terms")
        self.languages = _texts(told, "language_codes", self.languages)
        known = languages_of(self.model) or FIRST_LANGUAGES
        unknown = [code for code in self.languages if code not in known and code != "multi"]
        if unknown or len(self.languages) > LANGUAGE_LIMIT:
            raise Refused(f"Invalid language_codes: {', '.join(unknown) or f'more than {LANGUAGE_LIMIT}'}")


def _is_true(value: object) -> bool:
    return str(value).casefold() == "true"


def _number(told: Mapping[str, Any], name: str, default: float) -> float:
    try:
        return float(told.get(name, default))
    except (TypeError, ValueError):
        raise Refused(f"Invalid {name}: {told[name]!r}") from None


def _milliseconds(told: Mapping[str, Any], name: str, default: float) -> float:
    return _number(told, name, default * 1000) / 1000


def _texts(told: Mapping[str, Any], name: str, default: list[str]) -> list[str]:
    """Return a list of texts: the URL has it as JSON."""
    value = told.get(name, default)
    try:
        texts = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        texts = None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Refused(f"Invalid {name}: {value!r}")
    return texts
