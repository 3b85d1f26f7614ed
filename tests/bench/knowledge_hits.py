"""How often the passage that answers a spoken question is found: the table of docs/knowledge.md.

    PYTHONPATH=.paths:tests python tests/bench/knowledge_hits.py    # some seconds; once it gets weights of 83 MB

The questions and passages: `tests/kit/spoken_questions.py`.
"""

from __future__ import annotations

import asyncio

from kit.minilm import MiniLM
from kit.servers import install
from kit.spoken_questions import PASSAGES, QUESTIONS, hit_rates
from vivavoce.agents.knowledge import KnowledgeBase


async def main() -> None:
    print(f"| {len(QUESTIONS)} questions to {len(PASSAGES)} passages | hit@1 | hit@3 |\n|---|---|---|")
    embedder = MiniLM(install.minilm_weights())
    for name, base in (("words alone", KnowledgeBase()), (embedder.model, KnowledgeBase(embedder=embedder))):
        async with base:
            first, among_three = await hit_rates(base)
        print(f"| {name} | {first:.3f} | {among_three:.3f} |")


if __name__ == "__main__":
    asyncio.run(main())
