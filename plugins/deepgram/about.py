"""The facts about Deepgram."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.deepgram.client import KEY_VARIABLE, PROVIDER, client_of
from vivavoce.plugins.deepgram.flux import FluxSTT
from vivavoce.plugins.deepgram.models import AURA_2_VOICES, FLUX_MODELS, NOVA_LANGUAGES, NOVA_MODELS, voices_of
from vivavoce.plugins.deepgram.options import STTOptions
from vivavoce.plugins.deepgram.stt import STT
from vivavoce.plugins.deepgram.tts import TTS


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    return client_of("deepgram", api_key=api_key, base_url=base_url, region="", options=ConnectionOptions())


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="Deepgram",
        docs="https://developers.deepgram.com/docs",
        parts=(
            Part(
                kind="stt",
                make=STT,
                sample={"options": STTOptions(diarize=True)},
                models=NOVA_MODELS,
                languages=NOVA_LANGUAGES,
                note="Key terms need a Nova-3 model, speakers the option `diarize`. `multi` detects the languages.",
            ),
            Part(
                kind="stt",
                make=FluxSTT,
                models=FLUX_MODELS,
            ),
            Part(
                kind="tts",
                make=TTS,
                languages=AURA_2_VOICES,
                voices=[voice for language in AURA_2_VOICES for voice in voices_of(language)],
                note="A voice has its language.",
            ),
        ),
        keys=(KEY_VARIABLE,),
        get_key="https://console.deepgram.com",
        check=KeyCheck(
            client=_client, path="v1/auth/token", source="https://developers.deepgram.com/docs/authenticating"
        ),
    ),
)
