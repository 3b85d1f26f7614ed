"""The models and languages of AssemblyAI's streaming API that errors name; the service decides, and may have others.

Sources: assemblyai 1.8.2, `streaming/v3/models.py` (models); the languages: pipecat-ai 1.14.0,
`services/assemblyai/stt.py`, and https://www.assemblyai.com/docs/streaming/getting-started/optimizing-accuracy-and-latency.
"""

from __future__ import annotations

PRO_MODELS = ("universal-3-6-pro", "universal-3-6", "universal-3-5-pro", "u3-rt-pro")
"""Models that format every transcript and take expected languages; the first one is the newest."""

UNIVERSAL_MODELS = ("universal-streaming-english", "universal-streaming-multilingual")
"""Models that report word by word, and format a turn after its end."""

MODELS = (*PRO_MODELS, *UNIVERSAL_MODELS, "whisper-rt")

FIRST_LANGUAGES = ("en", "es", "fr", "de", "it", "pt")
"""Languages of `universal-streaming-multilingual` and `u3-rt-pro`."""

LANGUAGES = (
    *FIRST_LANGUAGES,
    *"tr nl sv no da fi hi vi ar he ja ur zh ru ko ca gl ro et fa yue af mr zu xh nn".split(),
)
"""Languages of `universal-3-6-pro`; `universal-3-5-pro` has those up to `zh`."""


def is_pro(model: str) -> bool:
    """Return whether a model is one of the Universal-3 family, also a variant of one, such as `"u3-rt-pro-beta-1"`."""
    return model.startswith(PRO_MODELS)


def languages_of(model: str) -> tuple[str, ...]:
    """Return the languages that a model is known to have; none for a model that is not known."""
    if model.startswith("universal-3-6"):
        return LANGUAGES
    if model.startswith("universal-3-5-pro"):
        return LANGUAGES[: LANGUAGES.index("zh") + 1]
    if model.startswith("u3-rt-pro") or model == "universal-streaming-multilingual":
        return FIRST_LANGUAGES
    return ("en",) if model == "universal-streaming-english" else ()
