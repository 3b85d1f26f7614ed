"""Keys, tokens of Microsoft Entra ID, and the addresses of regions, resources and containers."""

from __future__ import annotations

import pytest

from vivavoce.pipelines.core.errors import ProviderError, ProviderStatusError
from vivavoce.plugins import azure
from vivavoce.plugins.azure.twin import AzureTwin

REGIONS = {
    "westeurope": "https://westeurope.{}.speech.microsoft.com",
    "chinaeast2": "https://chinaeast2.{}.speech.azure.cn",
    "usgovvirginia": "https://usgovvirginia.{}.speech.azure.us",
}
STT, TTS = "/stt/speech/universal/v2", "/cognitiveservices/websocket/v2"
ENDPOINTS = {
    "https://eastus.api.cognitive.microsoft.com/": (
        f"https://eastus.stt.speech.microsoft.com{STT}",
        f"https://eastus.tts.speech.microsoft.com{TTS}",
    ),
    "wss://eastus.stt.speech.microsoft.com": (
        f"https://eastus.stt.speech.microsoft.com{STT}",
        f"https://eastus.tts.speech.microsoft.com{TTS}",
    ),
    "https://mine.cognitiveservices.azure.com/": (
        f"https://mine.cognitiveservices.azure.com{STT}",
        f"https://mine.cognitiveservices.azure.com/tts{TTS}",
    ),
    "ws://localhost:5000": (
        "http://localhost:5000/speech/recognition/conversation/cognitiveservices/v1",
        "http://localhost:5000/cognitiveservices/websocket/v1",
    ),
}


@pytest.mark.parametrize("region", REGIONS)
def test_a_region_has_the_hosts_of_its_cloud(region: str) -> None:
    host = REGIONS[region]
    assert azure.STT(region=region, api_key="k").address == host.format("stt") + STT
    assert azure.TTS(region=region, api_key="k").address == host.format("tts") + TTS
    own = azure.TTS(region=region, api_key="k", options=azure.TTSOptions(deployment="d"))
    assert own.address == host.format("voice") + "/cognitiveservices/websocket/v1"


@pytest.mark.parametrize("base_url", ENDPOINTS)
def test_an_endpoint_is_that_of_a_region_of_a_resource_or_of_a_container(base_url: str) -> None:
    made = azure.STT(base_url=base_url, api_key="k").address, azure.TTS(base_url=base_url, api_key="k").address
    assert made == ENDPOINTS[base_url]


async def test_a_token_provider_sync_or_async_is_asked_for_each_connection(twin: AzureTwin) -> None:
    twin.tokens = {"token-1", "token-2"}
    asked: list[int] = []

    def sync() -> str:
        asked.append(len(asked) + 1)
        return f"token-{len(asked)}"

    async def with_await() -> str:
        return sync()

    for provider in (sync, with_await):
        asked.clear()
        async with azure.STT(base_url=twin.stt_url, token_provider=provider) as stt:
            for _ in range(2):
                stream = await stt.open()
                await stream.aclose()
            with pytest.raises(ProviderStatusError, match="401") as caught:
                await stt.open()
            assert "token-3" not in f"{caught.value!s}{caught.value!r}"
    assert [one["authorization"] for one in twin.handshakes[:2]] == ["Bearer token-1", "Bearer token-2"]
    assert "ocp-apim-subscription-key" not in twin.handshakes[0]


async def test_a_token_provider_that_fails_is_told_without_its_secret(twin: AzureTwin) -> None:
    def fails() -> str:
        raise LookupError("secret-4711")

    async with azure.STT(base_url=twin.stt_url, token_provider=fails) as stt:
        with pytest.raises(ProviderError, match="token_provider failed with LookupError") as caught:
            await stt.open()
    assert caught.value.__cause__ is None is caught.value.__context__
    async with azure.STT(base_url=twin.stt_url, token_provider=lambda: "") as stt:
        with pytest.raises(ProviderError, match="needed a token"):
            await stt.open()
    assert twin.handshakes == []


def test_the_environments_settings_are_found_in_all_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, place, value in (
        ("AZURE_SPEECH_KEY", "AZURE_SPEECH_REGION", "eastus"),
        ("SPEECH_KEY", "SPEECH_REGION", "eastus"),
        ("AZURE_SPEECH_API_KEY", "AZURE_SPEECH_ENDPOINT", "https://eastus.api.cognitive.microsoft.com"),
    ):
        with monkeypatch.context() as environment:
            environment.setenv(key, "secret-key")
            environment.setenv(place, value)
            stt = azure.STT()
            assert stt.address.startswith("https://eastus.stt.")
            assert "secret-key" not in repr(stt)


async def test_the_environments_key_goes_to_the_vendor_only(twin: AzureTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_SPEECH_KEY", twin.key)
    async with azure.STT(base_url=twin.url) as stt:
        with pytest.raises(ProviderStatusError, match="401"):
            await stt.open()
    assert "ocp-apim-subscription-key" not in twin.handshakes[0]
