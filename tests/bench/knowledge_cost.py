"""The cost of knowledge, in one run: a search beside raw FTS5, the wait of a turn for it, and what it adds to M1.

    PYTHONPATH=.paths:tests python tests/bench/knowledge_cost.py                    # two minutes
    PYTHONPATH=.paths:tests python tests/bench/knowledge_cost.py --harness <folder> # and M1: seven more

10,000 passages of about 500 characters, whose words are as frequent as those of a language; questions of eight words,
five of them such as "what is the". Each question goes to raw FTS5 and to each base one after the other, in an order
that turns, so that all meet the same load. M1 is the time from the end of the caller's speech to the agent's first
sound, of the benchmark's harness: a process that searches and one without knowledge run side by side, both without an
answer that is begun ahead, where all of a search counts. Medians and 95th percentiles, and the median of the CPU, which
other work on the machine changes least, in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.memory_cost import measured
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
SQL = "SELECT p.text FROM words JOIN passages p ON p.id = words.rowid WHERE words MATCH ? ORDER BY rank LIMIT 4"
VARIANTS = {"zero": "providers without delay", "real": "providers of 600 ms"}

Call = Callable[[str], Awaitable[object]]


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


def shown(name: str, seconds: Sequence[float], used: Sequence[float] = ()) -> None:
    """Print median and 95 % of the times, and the median of the CPU."""
    ordered = sorted(seconds)
    cpu = f"{1000 * statistics.median(used):6.1f}" if used else ""
    print(f"{name:45} {1000 * statistics.median(ordered):6.1f} {1000 * ordered[int(0.95 * len(ordered))]:6.1f} {cpu}")


async def timed(questions: Sequence[str], calls: Mapping[str, Call]) -> None:
    """Print the times of the calls, which take turns."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    used: dict[str, list[float]] = {name: [] for name in calls}
    names = [*calls]
    for number, one in enumerate(questions):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began, before = time.perf_counter(), time.process_time()
            await calls[name](one)
            taken[name].append(time.perf_counter() - began)
            used[name].append(time.process_time() - before)
    for name, seconds in taken.items():
        shown(name, seconds, used[name])


def raw_fts5(path: Path, pattern: str) -> Call:
    """Return a call of SQLite alone, in a thread, with the words of a question that match the pattern."""
    raw = sqlite3.connect(path, check_same_thread=False)

    async def call(asked: str) -> None:
        wanted = " OR ".join(f'"{word}"' for word in re.findall(pattern, asked))
        await asyncio.to_thread(lambda: raw.execute(SQL, (wanted,)).fetchall())

    return call


async def filled(path: Path, texts: Sequence[str], embedder: Embedder | None = None) -> KnowledgeBase:
    base = KnowledgeBase(path, embedder=embedder)
    for number, text in enumerate(texts):
        await base.add_text(text, source=str(number))
    return base


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


async def searches(folder: Path, texts: Sequence[str], questions: Sequence[str]) -> None:
    async with (
        await filled(folder / "k.db", texts) as base,
        await filled(folder / "v.db", texts, RandomEmbedder()) as vectors,
    ):
        await vectors.search("warm")
        print(f"{PASSAGES} passages {'':30} median   95 %    CPU")
        calls: dict[str, Call] = {
            "raw FTS5, all eight words by OR": raw_fts5(folder / "k.db", r"\w+"),
            "raw FTS5, the three rare words by OR": raw_fts5(folder / "k.db", r"word\d+"),
            "search, words alone": base.search,
            f"search, vectors of {DIMENSIONS} dimensions": vectors.search,
        }
        await timed(questions, calls)
        await in_turns("wait of a turn, words alone", base)


def m1(folder: Path, harness: Path, rounds: int, turns: int) -> None:
    """Print M1 with a search and without, of processes side by side."""
    settings = {"BENCH_KNOWLEDGE": str(folder / "k.db")}
    os.environ["BENCH_WORDS"] = str(folder / "questions")
    for variant, name in VARIANTS.items():
        pairs = []
        for _ in range(rounds):
            results = measured("m1", {"variant": variant, "turns": turns}, harness, settings)
            pairs.append([result["raw_ms"]["median"] for result in results])
        without, searched = (statistics.median(column) for column in zip(*pairs, strict=True))
        added = statistics.median(with_it - alone for alone, with_it in pairs)
        print(f"M1, {name}: without {without:.1f} ms, with a search {searched:.1f} ms: {added:.1f} ms more; {pairs}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harness", type=Path, help="the folder of the benchmark's harness")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=20)
    given = parser.parse_args()
    random.seed(7)
    texts = ["\n\n".join(passage() for _ in range(100)) for _ in range(PASSAGES // 100)]
    questions = [question() for _ in range(QUESTIONS)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "questions").write_text("\n".join(questions), encoding="utf-8")
        asyncio.run(searches(folder, texts, questions))
        if given.harness is not None:
            m1(folder, given.harness, given.rounds, given.turns)


if __name__ == "__main__":
    main()
