"""The facts about ElevenLabs."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.plugins.elevenlabs.client import KEY_VARIABLES, PROVIDER, client_of
from vivavoce.plugins.elevenlabs.models import DEFAULT_STT_MODEL, LANGUAGES
from vivavoce.plugins.elevenlabs.stt import STT
from vivavoce.plugins.elevenlabs.tts import TTS, VOICES_URL


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    return client_of("elevenlabs", api_key=api_key, base_url=base_url)


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="ElevenLabs",
        docs="https://elevenlabs.io/docs",
        parts=(
            Part(
                kind="tts",
                make=TTS,
                models=LANGUAGES,
                languages=dict.fromkeys(language for languages in LANGUAGES.values() for language in languages),
                note=f"A voice has an id, listed at {VOICES_URL}. `eleven_v3` and `eleven_v4` are not supported.",
            ),
            Part(
                kind="stt",
                make=STT,
                models=(DEFAULT_STT_MODEL,),
                note="It settles words at the end of speech, so that it needs a VAD; with the option `commit` none. "
                'About 90 languages; `language=""` detects them.',
            ),
        ),
        keys=KEY_VARIABLES,
        get_key="https://elevenlabs.io/app/settings/api-keys",
        check=KeyCheck(
            client=_client,
            path="v1/user",
            refused=(400, 401, 403),
            source="elevenlabs 2.78.0, user/client.py, https://elevenlabs.io/docs/api-reference/user/get",
        ),
        note="`vivavoce doctor` reports a key as refused that may not read the user, though it may do for calls.",
    ),
)
