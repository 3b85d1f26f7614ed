"""How often words alone find the passage that answers a spoken question: the figures of docs/knowledge.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.spoken_questions import PASSAGES, QUESTIONS
from vivavoce.agents.knowledge import KnowledgeBase

PAGE = Path(__file__).parents[3] / "docs" / "knowledge.md"


async def test_words_alone_find_as_many_answers_as_the_page_says() -> None:
    first = among_three = 0
    async with KnowledgeBase() as base:
        for source, text in PASSAGES.items():
            await base.add_text(text, source=source)
        for wanted, question in QUESTIONS:
            found = [passage.source for passage in await base.search(question, 3)]
            first += found[:1] == [wanted]
            among_three += wanted in found
    count = len(QUESTIONS)
    told = re.search(r"words alone \| (\.\d+) \| (\.\d+) \|", PAGE.read_text(encoding="utf-8"))
    assert told is not None
    assert first / count == pytest.approx(float(told[1]), abs=0.03)
    assert among_three / count == pytest.approx(float(told[2]), abs=0.03)
