"""The check of a handshake: path, model, language, settings. A wrong key and an unknown voice are refused later.

Sources: https://elevenlabs.io/docs/api-reference/text-to-speech/v-1-text-to-speech-voice-id-multi-stream-input and
https://elevenlabs.io/docs/api-reference/speech-to-text/v-1-speech-to-text-realtime; elevenlabs 2.78.0,
`realtime/scribe.py` (ranges), `types/text_to_speech_output_format_enum.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vivavoce.plugins.elevenlabs.models import DEFAULT_STT_MODEL, LANGUAGES, SAMPLE_RATES

Query = Mapping[str, list[str]]

SPEAK = re.compile(r"/v1/text-to-speech/([^/]+)/multi-stream-input")
LISTEN = "/v1/speech-to-text/realtime"

MAX_INACTIVITY = 180
"""Seconds."""

MAX_TERMS, MAX_TERM = 50, 20
"""Key terms of a session, and characters of one."""

LISTENING_RANGES = (
    ("vad_silence_threshold_secs", 0.3, 3.0),
    ("vad_threshold", 0.1, 0.9),
    ("min_speech_duration_ms", 50, 2000),
    ("min_silence_duration_ms", 50, 2000),
)
"""Name, least and greatest value."""

LISTENING_RATES = (8000, 16000, 22050, 24000, 44100, 48000)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a handshake that is no websocket."""

    status: int
    code: str
    text: str

    @property
    def body(self) -> dict[str, object]:
        """As the service writes it: https://elevenlabs.io/docs/api-reference/errors."""
        return {"detail": {"code": self.code, "status": self.code, "message": self.text}}


REFUSALS = {
    401: Refusal(401, "missing_permissions", "The API key you used is missing a permission to execute this operation."),
    402: Refusal(402, "payment_required", "Your subscription has a failed or incomplete payment."),
    403: Refusal(403, "subscription_required", "Your subscription does not include this."),
    404: Refusal(404, "not_found", "Not Found"),
    429: Refusal(429, "too_many_concurrent_requests", "Too many concurrent requests."),
    503: Refusal(503, "system_busy", "The system is experiencing heavy traffic, please try again."),
}


def refusal(status: int) -> Refusal:
    """Return a refusal with this status."""
    return REFUSALS.get(status, Refusal(status, "internal_server_error", "Something went wrong."))


def bad(code: str, text: str) -> Refusal:
    """Return the refusal of settings."""
    return Refusal(400, code, text)


def check(path: str, query: Query) -> Refusal | None:
    """Return the refusal of a handshake, or None for a good one."""
    if SPEAK.fullmatch(path):
        return _speaking(query)
    return _listening(query) if path == LISTEN else REFUSALS[404]


def one(query: Query, name: str, default: str = "") -> str:
    """Return a parameter."""
    return query.get(name, [default])[0]


def _speaking(query: Query) -> Refusal | None:
    model, language = one(query, "model_id", "eleven_multilingual_v2"), one(query, "language_code")
    if model not in LANGUAGES:
        return bad("unsupported_model", f"The model {model} is not supported on this endpoint.")
    if language and language not in LANGUAGES[model]:
        return bad("unsupported_language", f"Model {model} does not support language_code {language}.")
    if one(query, "output_format") not in {f"pcm_{rate}" for rate in SAMPLE_RATES}:
        return bad("output_format_not_allowed", "This twin speaks pcm_… only.")
    limit = one(query, "inactivity_timeout", "20")
    if not limit.isdecimal() or not 1 <= int(limit) <= MAX_INACTIVITY:
        return bad("invalid_parameters", f"inactivity_timeout must be at most {MAX_INACTIVITY}.")
    return None


def _listening(query: Query) -> Refusal | None:
    if one(query, "model_id") != DEFAULT_STT_MODEL:
        return bad("invalid_model_id", f"Model {one(query, 'model_id')} is not available for realtime transcription.")
    if one(query, "audio_format", "pcm_16000") not in {f"pcm_{rate}" for rate in LISTENING_RATES}:
        return bad("invalid_audio_format", "This twin hears pcm_… only.")
    if one(query, "commit_strategy", "manual") not in ("manual", "vad"):
        return bad("invalid_parameters", "commit_strategy must be manual or vad.")
    for name, least, most in LISTENING_RANGES:
        value = one(query, name, str(least))
        if not value.replace(".", "", 1).isdecimal() or not least <= float(value) <= most:
            return bad("invalid_parameters", f"{name} must be between {least} and {most}.")
    for language in (one(query, "language_code", "en"), *query.get("secondary_languages", [])):
        if not (language.isalpha() and 2 <= len(language) <= 3):
            return bad("unsupported_language", f"{language} is no ISO 639-1 or ISO 639-3 code.")
    terms = query.get("keyterms", [])
    if len(terms) > MAX_TERMS or any(len(term) > MAX_TERM for term in terms):
        return bad("invalid_parameters", f"At most {MAX_TERMS} keyterms of at most {MAX_TERM} characters.")
    return None
