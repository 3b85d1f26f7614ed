"""A twin for each test, no key in the environment, and voices on the twin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from vivavoce.plugins import azure
from vivavoce.plugins.azure.client import ENDPOINT_VARIABLES, KEY_VARIABLES, REGION_VARIABLES
from vivavoce.plugins.azure.twin import AzureTwin, TwinPace


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own key."""
    for name in (*KEY_VARIABLES, *REGION_VARIABLES, *ENDPOINT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def twin() -> AsyncIterator[AzureTwin]:
    """A server that speaks at once, and knows two voices."""
    voices = (azure.DEFAULT_VOICE, "de-DE-KatjaNeural")
    async with AzureTwin(voices=voices, pace=TwinPace(first_byte=0.0, interval=0.0)) as running:
        yield running


@pytest.fixture
async def make(twin: AzureTwin) -> AsyncIterator[Callable[..., azure.TTS]]:
    """Return a function that makes a voice on the twin; they are closed after the test."""
    made: list[azure.TTS] = []

    def make(**arguments: object) -> azure.TTS:
        made.append(azure.TTS(**{"base_url": twin.tts_url, "api_key": twin.key, **arguments}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for tts in made:
        await tts.aclose()
