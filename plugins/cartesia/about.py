"""The facts about Cartesia."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.cartesia.client import DEFAULT_BASE_URL, KEY_VARIABLE, client_of
from vivavoce.plugins.cartesia.models import INK_LANGUAGES, LANGUAGES
from vivavoce.plugins.cartesia.stt import STT
from vivavoce.plugins.cartesia.tts import TTS
from vivavoce.plugins.cartesia.wire import PROVIDER


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    return client_of("cartesia", api_key, base_url or DEFAULT_BASE_URL, ConnectionOptions())


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="Cartesia",
        docs="https://docs.cartesia.ai",
        parts=(
            Part(
                kind="stt",
                make=STT,
                models=INK_LANGUAGES,
                languages=dict.fromkeys(language for languages in INK_LANGUAGES.values() for language in languages),
                note="The facts are those of ink-2, which knows English. ink-whisper knows all languages, needs a VAD, "
                "and has the times of words.",
            ),
            Part(
                kind="tts",
                make=TTS,
                models=LANGUAGES,
                languages=dict.fromkeys(language for languages in LANGUAGES.values() for language in languages),
                note="A voice has an id, listed at https://play.cartesia.ai/voices, and speaks each language.",
            ),
        ),
        keys=(KEY_VARIABLE,),
        get_key="https://play.cartesia.ai/keys",
        check=KeyCheck(
            client=_client,
            path="voices",
            query={"limit": "1"},
            source="cartesia 4.2.0, resources/voices.py, https://docs.cartesia.ai/api-reference/voices/list",
        ),
    ),
)
