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


AURA_2_VOICES = {
    "en": (
        "amalthea andromeda apollo arcas aries asteria athena atlas aurora callista cora cordelia delia draco "
        "electra harmonia helena hera hermes hyperion iris janus juno jupiter luna mars minerva neptune "
        "odysseus ophelia orion orpheus pandora phoebe pluto saturn selene thalia theia vesta zeus"
    ),
    "es": (
        "agustina alvaro antonia aquila carina celeste diana estrella gloria javier luciano nestor olivia "
        "selena silvia sirio valerio"
    ),
    "de": "aurelia elara fabian julius kara lara viktoria",
    "nl": "beatrix cornelia daphne hestia lars leda rhea roman sander",
    "fr": "agathe hector",
    "it": "cesare cinzia demetra dionisio elio flavio livia maia melia",
    "ja": "ama ebisu fujin izanami uzume",
}
"""The names of the Aura-2 voices, by language; the name of the model is `aura-2-NAME-LANGUAGE`."""


def voices_of(language: str) -> tuple[str, ...]:
    """Return the models of the voices of a language; of an unknown one, a voice of each language."""
    if language in AURA_2_VOICES:
        return tuple(f"aura-2-{name}-{language}" for name in AURA_2_VOICES[language].split())
    return tuple(f"aura-2-{names.split()[0]}-{one}" for one, names in AURA_2_VOICES.items())


FLUX_VOICES = ("flux-alexis-en", "flux-haley-en")
"""Models of `/v2/speak` that the vendor's documents name; there are more, as `flux-NAME-LANGUAGE`. Source:
https://developers.deepgram.com/docs/flux-tts/overview.
"""
