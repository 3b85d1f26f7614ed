"""How often the passage that answers a spoken question is found: the figures of docs/knowledge.md."""

from __future__ import annotations

import re
from pathlib import Path

import anyio.to_thread
import pytest

from kit.minilm import MiniLM
from kit.servers import install
from kit.servers.missing import missing
from kit.spoken_questions import hit_rates
from vivavoce.agents.knowledge import KnowledgeBase

PAGE = Path(__file__).parents[3] / "docs" / "knowledge.md"


def told(row: str) -> tuple[float, float]:
    """Return the figures of a row of the page's table."""
    found = re.search(rf"^\| {row}[^|]*\| (\.\d+) \| (\.\d+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, row
    return float(found[1]), float(found[2])


@pytest.fixture
async def minilm() -> MiniLM:
    try:
        return MiniLM(await anyio.to_thread.run_sync(install.minilm_weights))
    except install.InstallError as error:
        missing("the weights of all-MiniLM-L6-v2", str(error))


async def test_words_alone_find_as_many_answers_as_the_page_says() -> None:
    async with KnowledgeBase() as base:
        assert await hit_rates(base) == pytest.approx(told("words alone"), abs=0.03)


@pytest.mark.test_all("the model computes for seconds")
@pytest.mark.timeout(180)
async def test_embeddings_find_as_many_answers_as_the_page_says(minilm: MiniLM) -> None:
    first, second = await minilm.embed(["This is an example sentence", "Each sentence is converted"])
    # the vectors of sentence-transformers for the sentences of the model's card
    assert first[:4] == pytest.approx([0.0677, 0.0635, 0.0487, 0.0793], abs=1e-4)
    assert second[:4] == pytest.approx([0.0864, 0.1028, 0.0054, 0.0020], abs=1e-4)
    async with KnowledgeBase(embedder=minilm) as base:
        assert await hit_rates(base) == pytest.approx(told("embeddings"), abs=0.03)
