"""The facts about Cartesia."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.keys import find_key
from vivavoce.plugins.cartesia.models import LANGUAGES
from vivavoce.plugins.cartesia.tts import DEFAULT_BASE_URL, KEY_VARIABLE, TTS
from vivavoce.plugins.cartesia.wire import PROVIDER, VERSION


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    key = find_key(api_key, (KEY_VARIABLE,))
    headers = {"Authorization": f"Bearer {key}", "Cartesia-Version": VERSION}
    return Client("cartesia", base_url or DEFAULT_BASE_URL, headers=headers)


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="Cartesia",
        docs="https://docs.cartesia.ai",
        parts=(
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
