"""A scripted server for each test, and no key in the environment."""

from __future__ import annotations

from collections.abc import AsyncIterator

import google.genai.live  # noqa: F401 - the SDK's import takes seconds on a busy machine: not on a test's loop
import pytest

from vivavoce.plugins.google.twin.live import LiveTwin


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own settings for the SDK."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def server() -> AsyncIterator[LiveTwin]:
    """A server without a script yet."""
    async with LiveTwin() as running:
        yield running
