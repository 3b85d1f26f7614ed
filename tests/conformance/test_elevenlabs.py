"""The conformance checks on elevenlabs.TTS and elevenlabs.STT, against their twin."""

from __future__ import annotations

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.testing import check_stt, check_tts
from vivavoce.plugins import elevenlabs
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin


async def test_elevenlabs_keeps_the_promises_of_a_tts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with ElevenLabsTwin() as twin:
        await check_tts(lambda: elevenlabs.TTS(base_url=twin.url, api_key=twin.key), limit=LIMIT)
    assert len(twin.connections) == 1
    assert not twin.live


async def test_elevenlabs_keeps_the_promises_of_an_stt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with ElevenLabsTwin() as twin:
        await check_stt(
            lambda: elevenlabs.STT(base_url=twin.url, api_key=twin.key),
            twin.speech("Hello there."),
            expected="hello there",
            limit=LIMIT,
        )
