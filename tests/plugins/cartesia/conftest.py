"""A twin for each test, no key in the environment, and voices on the twin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from vivavoce.plugins import cartesia
from vivavoce.plugins.cartesia.twin import CartesiaTwin, TwinPace


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own key."""
    monkeypatch.delenv("CARTESIA_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def twin() -> AsyncIterator[CartesiaTwin]:
    """A server that speaks at once, and knows two voices."""
    voices = (cartesia.DEFAULT_VOICE, "another-voice")
    async with CartesiaTwin(voices=voices, pace=TwinPace(first_byte=0.0, interval=0.0)) as running:
        yield running


@pytest.fixture
async def make(twin: CartesiaTwin) -> AsyncIterator[Callable[..., cartesia.TTS]]:
    """Return a function that makes a voice on the twin; they are closed after the test."""
    made: list[cartesia.TTS] = []

    def make(**arguments: object) -> cartesia.TTS:
        made.append(cartesia.TTS(**{"base_url": twin.url, "api_key": twin.key, **arguments}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for tts in made:
        await tts.aclose()
