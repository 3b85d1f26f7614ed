"""The facts about Azure Speech."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.plugins.azure.client import KEY_VARIABLES, Service, address_of, key_header
from vivavoce.plugins.azure.models import LOCALES, VOICES_PAGE
from vivavoce.plugins.azure.options import STTOptions
from vivavoce.plugins.azure.stt import STT
from vivavoce.plugins.azure.tts import TTS
from vivavoce.plugins.azure.wire import PROVIDER

HOST = Service("tts", in_region="", in_resource="tts", in_container="")


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    url, path = address_of(HOST, None, base_url)
    return Client("azure", "/".join([url.rstrip("/"), path]) if path else url, headers=key_header(api_key, url))


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="Azure Speech",
        docs="https://learn.microsoft.com/azure/ai-services/speech-service/",
        parts=(
            Part(
                kind="stt",
                make=STT,
                sample={"region": "westeurope", "options": STTOptions(diarize=True)},
                languages=LOCALES,
                note="Speakers need the option `diarize`. Several languages: it detects the spoken one.",
            ),
            Part(
                kind="tts",
                make=TTS,
                sample={"region": "westeurope"},
                note=f"A voice has its languages and styles: {VOICES_PAGE}.",
            ),
        ),
        keys=KEY_VARIABLES,
        get_key="https://portal.azure.com/#create/Microsoft.CognitiveServicesSpeechServices",
        check=KeyCheck(
            client=_client,
            path="cognitiveservices/voices/list",
            source="https://learn.microsoft.com/azure/ai-services/speech-service/rest-text-to-speech#get-a-list-of-voices",
        ),
        note="A key belongs to a region: set `AZURE_SPEECH_REGION` or `AZURE_SPEECH_ENDPOINT` too.",
    ),
)
