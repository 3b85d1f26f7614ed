"""KnowledgeBase at its limits: embedders and searches that fail, files of others, many and broken documents."""

from __future__ import annotations

import asyncio
import io
import math
import os
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from kit.documents import pdf
from vivavoce.agents.knowledge import KnowledgeBase, Passage
from vivavoce.agents.knowledge.index import Index
from vivavoce.agents.testing import run_virtual
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderProtocolError
from vivavoce.pipelines.testing import ScriptedEmbedder

HOURS = "We open at nine on Monday. We close at five. On Sundays the shop is closed."
RETURNS = "You may return a parcel within thirty days. The refund takes a week."


class Cut(KnowledgeBase):
    """A base whose searches begin their work when their callers have left."""

    is_cutting = False

    async def search(self, query: str, k: int = 4) -> list[Passage]:
        if not self.is_cutting:
            return await super().search(query, k)
        begun, left, loop = anyio.Event(), threading.Event(), asyncio.get_running_loop()

        def work(index: Index) -> list[Passage]:
            loop.call_soon_threadsafe(begun.set)
            left.wait(10)
            return index.search(query, b"", k)

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self._run(work, only_reads=True))
            await begun.wait()
            group.cancel_scope.cancel()
        left.set()
        return []


async def test_a_base_that_takes_longer_to_read_than_a_search_may_take_is_read_all_the_same() -> None:
    statements: list[str] = []
    async with Cut(embedder=ScriptedEmbedder()) as base:
        await base.add_text("\n\n".join(f"{'The shop is open. ' * 30}" for _ in range(500)))
        base.is_cutting = True
        await base.search("shop")
        base.is_cutting = False
        await base._run(lambda index: index.database.set_trace_callback(statements.append))
        assert len(await base.search("shop")) == 4
    assert any("MATCH" in one for one in statements)
    assert not any("SELECT id, vector" in one for one in statements)


def test_a_long_document_survives_a_busy_embedder_and_a_search_does_not_wait_for_it() -> None:
    class Busy(ScriptedEmbedder):
        is_busy = False

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            self.is_busy = not self.is_busy
            if self.is_busy:
                raise ProviderError("busy", provider="scripted", retryable=True)
            return await super().embed(texts)

    async def main() -> None:
        async with KnowledgeBase(embedder=Busy()) as base:
            assert await base.add_text("\n\n".join("The shop is open. " * 30 for _ in range(250))) > 200
            with pytest.raises(ProviderError, match="busy"):
                await base.search("shop")
            assert len(await base.search("shop")) == 4

    run_virtual(main())


async def test_numbers_that_are_none_are_refused() -> None:
    for number in (math.nan, math.inf, -math.inf):
        async with KnowledgeBase(embedder=ScriptedEmbedder().when("shop", number)) as base:
            await base.add_text("It is open.")
            for call in (base.add_text, base.search):
                with pytest.raises(ProviderProtocolError, match="needed finite numbers"):
                    await call("the shop")
            assert [passage.text for passage in await base.search("open")] == ["It is open."]


async def test_a_closed_base_asks_no_embedder() -> None:
    asked = ScriptedEmbedder()
    base = KnowledgeBase(embedder=asked)
    await base.aclose()
    for call in (base.add_text, base.search):
        with pytest.raises(ConfigurationError, match="is closed"):
            await call("the shop")
    assert asked.asked == []


@pytest.mark.parametrize("other", [ScriptedEmbedder(dimensions=3), ScriptedEmbedder(model="another"), None])
async def test_a_base_whose_file_was_filled_anew_for_another_embedder_says_so(
    other: ScriptedEmbedder | None, tmp_path: Path
) -> None:
    path = tmp_path / "base.db"
    async with KnowledgeBase(path, embedder=ScriptedEmbedder()) as base, KnowledgeBase(path, embedder=other) as filling:
        await base.add_text(HOURS, source="hours")
        await base.search("open")
        await filling.clear()
        await filling.add_text(HOURS, source="hours")
        with pytest.raises(ConfigurationError, match="and needs an embedder of these|has no vectors"):
            await base.search("open")


async def test_many_documents_at_once_take_one_thread_beside_that_of_the_searches(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(10)]
    async with KnowledgeBase() as base:
        await base.add_text(HOURS)
        async with anyio.create_task_group() as group:
            for path in paths:
                os.mkfifo(path)  # it is read when it is written
                group.start_soon(base.add_file, path)
            await anyio.wait_all_tasks_blocked()
            assert [thread.name for thread in threading.enumerate()].count("document") == 1
            assert len(await base.search("closed")) == 1
            for path in paths:
                await anyio.to_thread.run_sync(path.write_text, RETURNS)
        assert len(await base.search("refund", k=20)) == 10


def broken_docx() -> bytes:
    """Return a docx whose compressed text is damaged."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("word/document.xml", "<a>" + "words " * 1000 + "</a>")
    data = bytearray(made.getvalue())
    start = data.index(b"document.xml") + len("document.xml")
    data[start : start + 4] = b"\xff\xff\xff\xff"
    return bytes(data)


def locked_pdf() -> bytes:
    """Return a PDF that is locked in a way that pypdf does not know."""
    return pdf("Refunds take a week.").replace(b"trailer\n<<", b"trailer\n<< /Encrypt << /Filter /Theirs >>")


@pytest.mark.parametrize(("name", "data"), [("a.docx", broken_docx()), ("a.pdf", locked_pdf())])
async def test_a_document_that_breaks_its_reader_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    async with KnowledgeBase() as base:
        with pytest.raises(ConfigurationError, match="that can be read, got"):
            await base.add_file(tmp_path / name)
        assert await base.is_empty()
