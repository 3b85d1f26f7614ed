"""The conformance checks on cartesia.TTS, against its twin."""

from __future__ import annotations

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.testing import check_tts
from vivavoce.plugins import cartesia
from vivavoce.plugins.cartesia.twin import CartesiaTwin


async def test_cartesia_keeps_the_promises_of_a_tts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with CartesiaTwin() as twin:
        await check_tts(lambda: cartesia.TTS(base_url=twin.url, api_key=twin.key), limit=LIMIT)
    assert len(twin.connections) == 1
    assert not twin.live
