"""The models, languages and voices of Deepgram that errors name; the service decides, and may have others.

Sources: deepgram-sdk 7.17.0 (`types/listen_v1model.py`, `types/listen_v2model.py`, `types/speak_v1model.py`),
https://developers.deepgram.com/docs/models-languages-overview and its changelogs up to 2026-10-06.
"""

from __future__ import annotations

NOVA_MODELS = (
    "nova-3",
    "nova-3-general",
    "nova-3-medical",
    "nova-2",
    "nova-2-general",
    "nova-2-meeting",
    "nova-2-phonecall",
    "nova-2-finance",
    "nova-2-conversationalai",
    "nova-2-voicemail",
    "nova-2-video",
    "nova-2-medical",
    "nova-2-drivethru",
    "nova-2-automotive",
    "nova",
    "nova-general",
    "nova-phonecall",
    "nova-medical",
    "enhanced",
    "enhanced-general",
    "enhanced-meeting",
    "enhanced-phonecall",
    "enhanced-finance",
    "base",
)
"""Models of `/v1/listen`."""

FLUX_MODELS = ("flux-general-en", "flux-general-multi")
"""Models of `/v2/listen`."""

NOVA_LANGUAGES = (
    "multi be bg bn bs ca cs da de de-CH el en es es-419 et fi fr fr-CA hi hr hu id it ja kn ko lt lv mk mr ms nl nl-BE"
    " no pl pt pt-BR pt-PT ro ru sk sl sr sv ta te tl tr uk vi zh zh-CN zh-Hans zh-Hant zh-TW"
).split()
"""Languages of `nova-3`; a regional tag such as `en-GB` has those of its language."""

ENGLISH_ONLY = ("nova-2-", "nova-3-medical", "nova-medical", "nova-phonecall", "enhanced-")
"""Beginnings of models that know English only; `nova-3-medical` knows `multi` too, `nova-2-general` more."""


def has_language(model: str, language: str) -> bool:
    """Return whether a model is known to have a language."""
    if model.startswith(ENGLISH_ONLY) and model != "nova-2-general":
        return language.partition("-")[0] == "en" or (model == "nova-3-medical" and language == "multi")
    return language in NOVA_LANGUAGES or language.partition("-")[0] in NOVA_LANGUAGES


def languages_of(model: str) -> tuple[str, ...]:
    """Return the languages that a model is known to have."""
    return tuple(language for language in NOVA_LANGUAGES if has_language(model, language))
