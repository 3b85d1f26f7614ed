"""The facts about AssemblyAI."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.assemblyai.client import KEY_VARIABLE, PROVIDER, client_of
from vivavoce.plugins.assemblyai.models import LANGUAGES, MODELS
from vivavoce.plugins.assemblyai.options import STTOptions
from vivavoce.plugins.assemblyai.stt import STT


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    return client_of("assemblyai", api_key=api_key, base_url=base_url, region="", options=ConnectionOptions())


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="AssemblyAI",
        docs="https://www.assemblyai.com/docs/streaming",
        parts=(
            Part(
                kind="stt",
                make=STT,
                sample={"options": STTOptions(diarize=True)},
                models=MODELS,
                languages=LANGUAGES,
                note="Speakers need the option `diarize`; with `decides_turns=False` the pipeline ends turns. "
                "Silence is billed too.",
            ),
        ),
        keys=(KEY_VARIABLE,),
        get_key="https://www.assemblyai.com/dashboard/api-keys",
        check=KeyCheck(
            client=_client,
            path="v3/token",
            query={"expires_in_seconds": "1"},
            source="https://www.assemblyai.com/docs/streaming/api-spec/generate-streaming-token",
        ),
    ),
)
