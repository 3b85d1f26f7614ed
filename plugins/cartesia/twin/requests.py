"""The requests of a client, checked as the service checks them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from vivavoce.plugins.cartesia.models import LANGUAGES, SAMPLE_RATES

STRUCTURED_SINCE = "2026-03-01"
"""The version from which on an error has a title, a message and a code; an older one is a text."""

CHANGING = ("transcript", "continue", "flush", "duration")
"""The fields that may differ between the requests of a context."""

ENCODINGS = ("pcm_s16le", "pcm_f32le")
"""Of the service's encodings, those of this server."""

MAX_DELAY = 5000
DEFAULT_DELAY = 3000
"""Milliseconds for which text waits for more."""


class Refusal(Exception):  # noqa: N818 - an answer rather than an error
    """The service refuses a request or a handshake.

    Args:
        code: The error's name for machines; None where the service has none.
    """

    def __init__(self, status: int, title: str, message: str, code: str | None = None) -> None:
        super().__init__(f"{title}: {message}")
        self.status = status
        self.title = title
        self.message = message
        self.code = code

    def fields(self, version: str, request_id: str) -> dict[str, Any]:
        """Return the error's fields in the form of a version."""
        if version < STRUCTURED_SINCE:
            return {"error": str(self)}
        return {"error_code": self.code, "title": self.title, "message": self.message, "request_id": request_id}


@dataclass(frozen=True, slots=True)
class Request:
    """A piece of text for a context."""

    context_id: str
    transcript: str
    is_last: bool
    is_flush: bool
    delay: float
    """Seconds."""
    rate: int
    encoding: str
    wants_words: bool
    settings: Mapping[str, Any] = field(repr=False)
    """The fields that must stay the same."""


def checked(message: Mapping[str, Any], voices: Collection[str], models: Collection[str]) -> Request:
    """Return the request of a message.

    Args:
        voices: The voices that exist; empty: any.
    Raises:
        Refusal: The service refuses it.
    """
    context_id = _text(message, "context_id")
    model, transcript = _text(message, "model_id"), _text(message, "transcript", may_be_empty=True)
    if model not in models:
        raise Refusal(
            400, "Invalid model", "The model is not valid, make sure it is a valid model ID.", "model_not_found"
        )
    voice = message.get("voice")
    name = voice.get("id") if isinstance(voice, dict) else voice
    if not isinstance(name, str) or (isinstance(voice, dict) and voice.get("mode", "id") != "id"):
        raise Refusal(400, "Invalid voice", "The voice needs an id.")
    if voices and name not in voices:
        raise Refusal(404, "Voice not found", "The requested voice does not exist.")
    language = message.get("language")
    if language is not None and language not in LANGUAGES.get(model, (language,)):
        raise Refusal(400, "Invalid language", "The language is not supported by the model.")
    form = message.get("output_format")
    if not isinstance(form, dict) or form.get("container") != "raw" or form.get("encoding") not in ENCODINGS:
        raise Refusal(400, "Invalid output format", f"This server needs raw audio in one of {ENCODINGS}.")
    if form.get("sample_rate") not in SAMPLE_RATES:
        raise Refusal(400, "Invalid output format", f"The sample rate must be one of {SAMPLE_RATES}.")
    _check_controls(message)
    return Request(
        context_id,
        transcript,
        is_last=not message.get("continue", False),
        is_flush=bool(message.get("flush", False)),
        delay=_within(message, "max_buffer_delay_ms", DEFAULT_DELAY, 0, MAX_DELAY) / 1000,
        rate=form["sample_rate"],
        encoding=form["encoding"],
        wants_words=bool(message.get("add_timestamps", False)),
        settings={name: value for name, value in message.items() if name not in CHANGING},
    )


def _check_controls(message: Mapping[str, Any]) -> None:
    controls = message.get("generation_config") or {}
    if not isinstance(controls, dict):
        raise Refusal(400, "Invalid request", "generation_config must be an object.")
    _within(controls, "speed", 1.0, 0.6, 1.5)
    _within(controls, "volume", 1.0, 0.5, 2.0)


def _text(message: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not (value or may_be_empty):
        raise Refusal(400, "Invalid request", f"{name} is required.")
    return value


def _within(values: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise Refusal(400, "Invalid request", f"{name} must be between {least:g} and {most:g}.")
    return value
