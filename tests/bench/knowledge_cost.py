"""The cost of knowledge, in one run: a search beside raw FTS5, and the wait of a turn for its search.

    PYTHONPATH=.paths:tests python tests/bench/knowledge_cost.py    # about a minute

10,000 passages of about 500 characters, whose words are as frequent as those of a language; questions of eight words,
five of them such as "what is the". Medians and 95th percentiles, in milliseconds.
"""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.knowledge import KnowledgeBase, KnowledgeOptions
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.embedder.base import Embedder
from vivavoce.pipelines.testing import ScriptedLLM

PASSAGES, QUESTIONS, TURNS = 10_000, 200, 60
DIMENSIONS = 384
FREQUENT = "the a of to and in is it you that for on are with as at be this have from".split()
RARE = [f"word{number}" for number in range(20_000)]
WEIGHTS = [1 / (number + 10) for number in range(20_000)]


class RandomEmbedder(Embedder):
    """Vectors by chance, at once: what is measured is the search."""

    provider = "random"

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[random.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in texts]


def passage() -> str:
    words = random.choices(RARE, WEIGHTS, k=40) + random.choices(FREQUENT, k=25)
    random.shuffle(words)
    return " ".join(words).capitalize() + "."


def question() -> str:
    return " ".join(["what", "is", "the", *random.choices(RARE, WEIGHTS, k=3), "for", "you"])


def shown(name: str, seconds: Sequence[float]) -> None:
    ordered = sorted(seconds)
    print(f"{name:45} {1000 * statistics.median(ordered):6.1f} {1000 * ordered[int(0.95 * len(ordered))]:6.1f}")


async def timed(calls: Sequence[str], call: Callable[[str], Awaitable[object]]) -> list[float]:
    taken = []
    for one in calls:
        began = time.perf_counter()
        await call(one)
        taken.append(time.perf_counter() - began)
    return taken


async def main() -> None:
    random.seed(7)
    texts, questions = (
        ["\n\n".join(passage() for _ in range(100)) for _ in range(PASSAGES // 100)],
        [question() for _ in range(QUESTIONS)],
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "k.db"
        async with KnowledgeBase(path) as base:
            for number, text in enumerate(texts):
                await base.add_text(text, source=str(number))
            raw = sqlite3.connect(path, check_same_thread=False)
            sql = (
                "SELECT p.text FROM words JOIN passages p ON p.id = words.rowid WHERE words MATCH ? "
                "ORDER BY rank LIMIT 4"
            )

            def fts5(asked: str) -> list[object]:
                return raw.execute(sql, (" OR ".join(f'"{word}"' for word in re.findall(r"\w+", asked)),)).fetchall()

            async def in_thread(asked: str) -> None:
                await asyncio.to_thread(fts5, asked)

            rare = [" ".join(re.findall(r"word\d+", asked)) for asked in questions]

            print(f"{raw.execute('SELECT count(*) FROM passages').fetchone()[0]} passages {'':23} median   95 %")
            shown("raw FTS5, all eight words by OR", await timed(questions, in_thread))
            shown("raw FTS5, the three rare words by OR", await timed(rare, in_thread))
            shown("search, words alone", await timed(questions, base.search))
            raw.close()
            await in_turns("wait of a turn, words alone", base)
        async with KnowledgeBase(Path(folder) / "v.db", embedder=RandomEmbedder()) as base:
            for number, text in enumerate(texts):
                await base.add_text(text, source=str(number))
            await base.search("warm")
            shown(f"search, vectors of {DIMENSIONS} dimensions", await timed(questions, base.search))


async def in_turns(name: str, base: KnowledgeBase) -> None:
    """Measure the stage `retrieval` of turns in writing."""
    llm = ScriptedLLM(default=["Yes."])
    options = SessionOptions(knowledge=KnowledgeOptions(base=base), capture_content=False)
    async with AgentSession(Agent("x"), CascadingPipeline(llm=llm), options=options) as session:
        chat = TextTransport()
        await session.start(chat)
        for _ in range(TURNS):
            chat.send(question())
            async for piece in chat:
                if piece.is_final:
                    break
        await asyncio.sleep(0.1)
        stages = [stage for turn in session.turns for stage in turn.stages if stage.name == "retrieval"]
    shown(name, [stage.seconds for stage in stages])


if __name__ == "__main__":
    asyncio.run(main())
