"""The check of a handshake: key, path, model, language, settings.

Sources: https://developers.deepgram.com/docs/errors (statuses and bodies), /docs/models-languages-overview and the
changelogs that it links (languages), deepgram-sdk 7.17.0 `types/listen_v1model.py`, `types/listen_v2model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vivavoce.plugins.deepgram.models import FLUX_MODELS, NOVA_MODELS, has_language

RATES = range(8000, 48_001)
"""Hz."""

FLUX_RANGES = (("eot_threshold", 0.5, 1.0), ("eager_eot_threshold", 0.3, 0.9), ("eot_timeout_ms", 500, 60_000))
"""Name, least and greatest value (docs/flux/configuration)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a handshake that is no websocket."""

    status: int
    code: str
    text: str


REFUSALS = {
    400: Refusal(400, "Bad Request", "Bad Request: No such model/language/tier combination found."),
    401: Refusal(401, "INVALID_AUTH", "Invalid credentials."),
    402: Refusal(402, "ASR_PAYMENT_REQUIRED", "Project does not have enough credits for an ASR request."),
    403: Refusal(403, "INSUFFICIENT_PERMISSIONS", "Project does not have access to the requested model."),
    404: Refusal(404, "NOT_FOUND", "There is nothing at this path."),
    429: Refusal(429, "TOO_MANY_REQUESTS", "Too many requests. Please try again later."),
    503: Refusal(503, "SERVICE_UNAVAILABLE", "Please try again later."),
}


def refusal(status: int) -> Refusal:
    """Return the vendor's refusal with this status."""
    return REFUSALS.get(status, Refusal(status, "INTERNAL_SERVER_ERROR", "Something went wrong."))


def check(path: str, query: Mapping[str, list[str]], authorization: str, key: str) -> Refusal | None:
    """Return the refusal of a handshake, or None for a good one.

    Args:
        authorization: The head of this name; both schemes are in use (docs/authenticating).
        key: The right key.
    """
    if not has_key(authorization, key):
        return REFUSALS[401]
    if path == "/v1/listen":
        return _nova(query) or _audio(query)
    if path == "/v2/listen":
        return _flux(query) or _audio(query)
    return REFUSALS[404]


def has_key(authorization: str, key: str) -> bool:
    """Return whether the head of this name has the key; both schemes are in use (docs/authenticating)."""
    return authorization in (f"Token {key}", f"Bearer {key}", f"token {key}")


def _flux(query: Mapping[str, list[str]]) -> Refusal | None:
    if _one(query, "model") not in FLUX_MODELS:
        return REFUSALS[400]
    for name, least, most in FLUX_RANGES:
        value = _one(query, name, str(least))
        if not value.replace(".", "", 1).isdecimal() or not least <= float(value) <= most:
            return bad(f"{name} must be between {least} and {most}.")
    eager, sure = float(_one(query, "eager_eot_threshold", "0.3")), float(_one(query, "eot_threshold", "0.7"))
    if eager > sure:
        return bad("eager_eot_threshold must not be above eot_threshold.")
    if "language_hint" in query and _one(query, "model") != "flux-general-multi":
        return bad("language_hint needs flux-general-multi.")
    return None


def _nova(query: Mapping[str, list[str]]) -> Refusal | None:
    model, language = _one(query, "model", "base"), _one(query, "language", "en")
    if model in FLUX_MODELS or model not in NOVA_MODELS or not has_language(model, language):
        return REFUSALS[400]
    if query.get("keyterm") and not model.startswith("nova-3"):
        return bad("Keyterm Prompting is only available with the Nova-3 models.")
    if query.get("keywords") and model.startswith("nova-3"):
        return bad("Keywords are not available with the Nova-3 models; use keyterm.")
    if "utterance_end_ms" in query:
        if _one(query, "interim_results") != "true":
            return bad("utterance_end_ms needs interim_results=true.")
        if int(_one(query, "utterance_end_ms")) < 1000:
            return bad("utterance_end_ms must be at least 1000.")
    if "detect_language" in query:
        return bad("detect_language is not available for streams; use language=multi.")
    return None


def _audio(query: Mapping[str, list[str]]) -> Refusal | None:
    if _one(query, "encoding") != "linear16":
        return bad("This twin hears encoding=linear16 only.")
    rate = _one(query, "sample_rate", "0")
    return None if rate.isdecimal() and int(rate) in RATES else bad("Invalid sample_rate.")


def bad(text: str) -> Refusal:
    """Return the refusal of settings."""
    return Refusal(400, "Bad Request", f"Bad Request: {text}")


def _one(query: Mapping[str, list[str]], name: str, default: str = "") -> str:
    return query.get(name, [default])[0]
