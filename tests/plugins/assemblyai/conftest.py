"""A twin for each test, and no key in the environment."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from vivavoce.plugins.assemblyai.twin import AssemblyAITwin


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own key."""
    monkeypatch.delenv("ASSEMBLYAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def twin() -> AsyncIterator[AssemblyAITwin]:
    async with AssemblyAITwin() as running:
        yield running
