"""A twin for each test, no key in the environment, and voices on the twin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from vivavoce.plugins import elevenlabs
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin, TwinPace


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own keys."""
    for name in ("ELEVENLABS_API_KEY", "ELEVEN_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def twin() -> AsyncIterator[ElevenLabsTwin]:
    """A server that speaks at once, and knows two voices."""
    voices = (elevenlabs.DEFAULT_VOICE, "another-voice")
    async with ElevenLabsTwin(voices=voices, pace=TwinPace(first_byte=0.0, interval=0.0)) as running:
        yield running


@pytest.fixture
async def make(twin: ElevenLabsTwin) -> AsyncIterator[Callable[..., elevenlabs.TTS]]:
    """Return a function that makes a voice on the twin; they are closed after the test."""
    made: list[elevenlabs.TTS] = []

    def make(**arguments: object) -> elevenlabs.TTS:
        made.append(elevenlabs.TTS(**{"base_url": twin.url, "api_key": twin.key, **arguments}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for tts in made:
        await tts.aclose()
