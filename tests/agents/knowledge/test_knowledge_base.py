"""KnowledgeBase: documents in, the passages that fit a question out."""

from __future__ import annotations

import asyncio
import os
import pickle
import sqlite3
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pypdf
import pytest
from pypdf.errors import DependencyError

from kit.documents import pdf
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import RetrievalMissed
from vivavoce.agents.knowledge import KnowledgeBase, KnowledgeOptions, Passage
from vivavoce.agents.knowledge.index import Index
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderProtocolError, StoreUnavailable
from vivavoce.pipelines.testing import ScriptedEmbedder, ScriptedLLM, check_embedder

HOURS = "We open at nine on Monday. We close at five. On Sundays the shop is closed."
RETURNS = "You may return a parcel within thirty days. The refund takes a week."


@pytest.fixture
async def base() -> AsyncIterator[KnowledgeBase]:
    async with KnowledgeBase() as base:
        yield base


async def found(base: KnowledgeBase, query: str, k: int = 4) -> list[str]:
    return [passage.source for passage in await base.search(query, k)]


async def test_the_passage_with_the_words_of_a_question_is_found_with_its_source_and_metadata(
    base: KnowledgeBase,
) -> None:
    assert await base.is_empty()
    assert await base.add_text(HOURS, source="hours", metadata={"page": 3}) == 1
    await base.add_text(RETURNS, source="returns")
    (passage, *_) = await base.search("When do you close on Sundays?")
    assert (passage.text, passage.source, passage.metadata) == (HOURS, "hours", {"page": 3})
    assert not await base.is_empty()


async def test_a_word_is_found_in_another_form_and_with_other_accents(base: KnowledgeBase) -> None:
    await base.add_text(HOURS, source="hours")
    await base.add_text("Our café serves crêpes.", source="menu")
    assert (await found(base, "closing"))[0] == "hours"
    assert await found(base, "CREPE") == ["menu"]


async def test_the_score_is_the_share_of_the_questions_words_and_rare_words_count_more(base: KnowledgeBase) -> None:
    for number in range(20):
        await base.add_text(f"The shop sells article {number}.", source=str(number))
    await base.add_text("The shop sells violins.", source="violins")
    (whole,) = await base.search("shop sells violins", 1)
    (rare,) = await base.search("violins zebras", 1)
    (frequent,) = await base.search("shop zebras", 1)
    assert whole.score == pytest.approx(1.0)
    assert 0.4 < rare.score < 0.5
    assert 0.0 < frequent.score < 0.1


async def test_passages_have_whole_sentences_of_one_section_behind_its_heading(
    base: KnowledgeBase, tmp_path: Path
) -> None:
    sentences = [f"Rule number {number} says that Dr. Smith decides about article {number}." for number in range(40)]
    path = (tmp_path / "rules").with_suffix(".md")
    path.write_text(f"# Rules\n\n{' '.join(sentences)}\n\n## Prices ##\n\nTea costs\n2.5 pounds.\n")
    count = await base.add_file(path)
    passages = await base.search("rules Smith tea pounds", count)
    assert len(passages) == count
    rules = [passage.text for passage in passages if passage.text.startswith("Rules\n")]
    assert len(rules) == count - 1
    assert all(len(text) <= 600 and text.endswith(".") for text in rules)
    assert sum(text.count("Rule number") for text in rules) == 40
    assert "Prices\nTea costs 2.5 pounds." in [passage.text for passage in passages]


async def test_a_source_that_is_added_again_replaces_itself_and_texts_without_one_add_up(base: KnowledgeBase) -> None:
    await base.add_text("Old words.", source="a")
    await base.add_text("New words.", source="a")
    await base.add_text("One more word.")
    await base.add_text("And another word.")
    assert [passage.text for passage in await base.search("old")] == []
    assert sorted(passage.text for passage in await base.search("words")) == [
        "And another word.",
        "New words.",
        "One more word.",
    ]
    assert await base.remove("a") == 1
    assert await base.remove("a") == 0
    await base.clear()
    assert await base.is_empty()
    assert await base.search("words") == []


@pytest.mark.parametrize(
    "query",
    [
        'AND OR NOT NEAR("a b", 2)',
        'text : "',
        "* ^ - + ( ) { } '",
        "x'; DROP TABLE passages; --",
        "\0 \ud800 _ ­",
        " ".join(f"word{number}" for number in range(5_000)),
        "“quoted” “",
    ],
)
async def test_no_query_has_syntax(base: KnowledgeBase, query: str) -> None:
    await base.add_text(HOURS, source="hours")
    assert await base.search(query) == []
    assert (await found(base, f"shop {query}")) == ["hours"]


async def test_an_empty_query_finds_nothing(base: KnowledgeBase) -> None:
    await base.add_text(HOURS)
    assert await base.search("") == await base.search(" \n") == await base.search("?!") == []


async def test_words_that_most_passages_have_do_not_hide_the_others(base: KnowledgeBase) -> None:
    text = "\n\n".join(f"{'The shop has it. ' * 30}Item{number}." for number in range(300))
    await base.add_text(text, source="list")
    await base.add_text("The shop has violins.", source="violins")
    (passage, *_) = await base.search("Has the shop violins?")
    assert passage.source == "violins"
    assert passage.score == pytest.approx(1.0)
    assert len(await base.search("Has the shop")) == 4


# --- files


async def test_a_file_is_added_under_its_path(base: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffOpening hours: nine to five.\r\nBring a token.".encode())
    await base.add_file(tmp_path / "a.txt")
    (passage,) = await base.search("opening")
    assert passage.text == "Opening hours: nine to five. Bring a token."
    assert passage.source == str(tmp_path / "a.txt")
    assert await base.remove(str(tmp_path / "a.txt")) == 1


async def test_a_docx_is_added_with_its_headings_and_tables(base: KnowledgeBase, tmp_path: Path) -> None:
    w = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as parts:
        parts.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{w}"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Prices</w:t>'
            "</w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>Tea</w:t><w:tab/><w:t>two pounds</w:t></w:r></w:p></w:tc>"
            "</w:tr></w:tbl></w:body></w:document>",
        )
    await base.add_file(str(tmp_path / "a.docx"))
    (passage,) = await base.search("tea")
    assert passage.text == "Prices\nTea\ttwo pounds"


async def test_a_pdf_is_added(base: KnowledgeBase, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Refunds take seven days."))
    await base.add_file(tmp_path / "a.pdf")
    (passage,) = await base.search("refund")
    assert passage.text == "Refunds take seven days."


async def test_a_pdf_that_is_encrypted_says_what_opens_it(
    base: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open.pdf").write_bytes(pdf("Refunds take seven days."))
    for name, password in (("locked.pdf", "secret"), ("protected.pdf", "")):
        writer = pypdf.PdfWriter(clone_from=tmp_path / "open.pdf")
        writer.encrypt(password, owner_password="own", algorithm="RC4-128")
        writer.write(tmp_path / name)
    with pytest.raises(ConfigurationError, match=r"without a password, got .*locked.pdf; save it without one"):
        await base.add_file(tmp_path / "locked.pdf")
    assert await base.add_file(tmp_path / "protected.pdf") == 1

    def without_cryptography(file: object) -> object:
        raise DependencyError("cryptography>=3.1 is required for AES algorithm")

    monkeypatch.setattr(pypdf, "PdfReader", without_cryptography)
    with pytest.raises(ConfigurationError, match=r"open.pdf is encrypted by AES; run: pip install cryptography"):
        await base.add_file(tmp_path / "open.pdf")


@pytest.mark.parametrize(
    ("name", "content", "needed"),
    [
        ("a.rtf", b"words", r"one of \.txt, \.md, \.pdf, \.docx"),
        ("a.txt", b" \n?!", "without any word"),
        ("a.pdf", pdf("").replace(b"()", b"( )"), "scanned pages need OCR"),
        ("a.txt", "Öffnung".encode("latin-1"), "UTF-8"),
        ("a.txt", b"x" * 20_000_001, "at most 20 MB"),
        ("a.docx", b"no zip", "docx that can be read"),
        ("a.pdf", b"no pdf", "PDF that can be read"),
        ("a.txt", None, "No such file"),
    ],
)
async def test_a_document_that_does_not_fit_is_refused(
    base: KnowledgeBase, tmp_path: Path, name: str, content: bytes | None, needed: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=needed):
        await base.add_file(tmp_path / name)
    assert await base.is_empty()


async def test_wrong_arguments_are_refused(base: KnowledgeBase) -> None:
    with pytest.raises(ValueError, match="k >= 1"):
        await base.search("shop", 0)
    with pytest.raises(ValueError, match="need query as a str"):
        await base.search(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="metadata as JSON data"):
        await base.add_text("Word.", metadata={"at": object()})
    with pytest.raises(ValueError, match="path as the path of a file"):
        KnowledgeBase("")
    with pytest.raises(ValueError, match=r"embedder must be Embedder\(…\)"):
        KnowledgeBase(embedder=ScriptedEmbedder)  # type: ignore[arg-type]


# --- the file


async def test_a_file_keeps_its_documents_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "k.db"
    async with KnowledgeBase(path) as base, KnowledgeBase(path) as other:
        assert await other.is_empty()
        await base.add_text(HOURS, source="hours")
        assert await found(other, "shop") == ["hours"]
        await base.add_text("Fish.", source="hours")
        assert await found(other, "shop") == []
    assert path.stat().st_mode & 0o777 == 0o600
    async with pickle.loads(pickle.dumps(KnowledgeBase(path))) as again:
        assert await found(again, "fish") == ["hours"]


async def test_a_base_in_memory_cannot_go_to_another_process() -> None:
    with pytest.raises(ConfigurationError, match="give it a path"):
        pickle.dumps(KnowledgeBase())


async def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE entries (x)")
    other.close()
    with pytest.raises(ConfigurationError, match="a knowledge base, got a file with the table 'entries'"):
        await KnowledgeBase(tmp_path / "other.db").open()
    (tmp_path / "no.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await KnowledgeBase(tmp_path / "no.db").open()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from 3.12 on: the thread lingers
@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_base_goes_on_in_a_forked_process(tmp_path: Path, is_in_memory: bool) -> None:
    base = KnowledgeBase(":memory:" if is_in_memory else tmp_path / "k.db")
    asyncio.run(base.add_text(HOURS, source="hours"))
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = 0 if asyncio.run(found(base, "shop")) == ["hours"] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(found(base, "shop")) == ["hours"]
    asyncio.run(base.aclose())


async def test_after_the_close_each_call_says_so() -> None:
    base = KnowledgeBase()
    await base.add_text(HOURS)
    await base.aclose()
    await base.aclose()
    with pytest.raises(ConfigurationError, match="closed"):
        await base.search("shop")


# --- waiting


class Slow(KnowledgeBase):
    """A base whose searches go on for as long as SQLite is let, and tell when one runs and how it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = anyio.Event()
        self.ends: list[str] = []

    async def search(self, query: str, k: int = 4) -> list[Passage]:
        loop = asyncio.get_running_loop()

        def note() -> int:
            loop.call_soon_threadsafe(self.runs.set)
            return 1

        def work(index: Index) -> list[Passage]:
            index.database.create_function("note", 0, note)
            endless = "WITH RECURSIVE n(x) AS (SELECT note() UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
            try:
                index.database.execute(endless).fetchone()
            except sqlite3.OperationalError as error:
                self.ends.append(str(error))
                raise
            return []

        return await self._run(work, only_reads=True)


async def test_a_search_that_runs_is_interrupted_when_it_is_cancelled_and_the_next_call_comes() -> None:
    async with Slow() as base, anyio.create_task_group() as group:
        await base.add_text(HOURS, source="hours")
        group.start_soon(base.search, "shop")
        await base.runs.wait()
        assert base.ends == []
        group.cancel_scope.cancel()
    assert base.ends == ["interrupted"]  # the close, in the same thread, came behind it


async def test_a_search_whose_caller_has_left_does_not_begin() -> None:
    async with Slow() as base, anyio.create_task_group() as group:
        await base.add_text(HOURS, source="hours")
        group.start_soon(base.search, "shop")
        await base.runs.wait()
        with anyio.move_on_after(0):
            await base.search("shop")
        group.cancel_scope.cancel()
    assert base.ends == ["interrupted"]  # one of the two


@pytest.mark.test_all("a deadline of real time, long enough for a thread to begin on a busy machine")
@pytest.mark.timeout(60)
async def test_a_search_is_interrupted_at_the_deadline_of_its_turn_and_the_caller_gets_the_answer() -> None:
    async with Slow() as base:
        options = SessionOptions(knowledge=KnowledgeOptions(base=base, deadline=5.0))
        session: AgentSession[None] = AgentSession(
            Agent("x"), CascadingPipeline(llm=ScriptedLLM("Hm.")), options=options
        )
        missed: list[RetrievalMissed] = []
        session.on(RetrievalMissed, missed.append)
        async with session:
            await session.start(chat := TextTransport())
            chat.send("are you open?")
            await base.runs.wait()
            assert (await chat.receive()).text == "Hm."
        assert [event.error for event in missed] == [None]
        assert await base.is_empty()
        assert base.ends == ["interrupted"]


# --- embeddings


def embedder(**options: str) -> ScriptedEmbedder:
    made = ScriptedEmbedder(**options)  # type: ignore[arg-type]
    return made.when("open", 3, 0).when("shut", 2, 0.5).when("parcel", 0, 1).when("money back", 0.2, 1)


async def test_a_paraphrase_is_found_by_its_meaning_and_the_score_is_a_cosine_with_a_bonus_for_words() -> None:
    async with KnowledgeBase(embedder=embedder()) as base:
        await base.add_text(HOURS, source="hours")
        await base.add_text(RETURNS, source="returns")
        (best, other) = await base.search("Can I get my money back?")
        assert (best.source, other.source) == ("returns", "hours")
        assert best.score == pytest.approx(0.98, abs=0.01)
        (best, _) = await base.search("parcel")
        assert best.score == pytest.approx(1.1)
        assert len(await base.search("parcel", 1)) == 1
        await base.remove("returns")
        assert await found(base, "parcel") == ["hours"]


async def test_vectors_are_in_the_file_and_belong_to_one_model(tmp_path: Path) -> None:
    async with KnowledgeBase(tmp_path / "k.db", embedder=embedder()) as base:
        await base.add_text(HOURS, source="hours")
        await base.add_text(RETURNS, source="returns")
    again = embedder()
    async with KnowledgeBase(tmp_path / "k.db", embedder=again) as base:
        assert (await found(base, "are you shut"))[0] == "hours"
    assert again.asked == [("are you shut",)]
    for other, got in (
        (ScriptedEmbedder(dimensions=3), "with 3 dimensions"),
        (ScriptedEmbedder(model="newer"), "of newer with 2 dimensions"),
        (None, "got no vectors"),
    ):
        with pytest.raises(ValueError, match=f"of embedder with 2 dimensions.*{got}"):
            await KnowledgeBase(tmp_path / "k.db", embedder=other).open()


async def test_a_base_of_words_takes_an_embedder_when_it_is_empty(tmp_path: Path) -> None:
    async with KnowledgeBase(tmp_path / "k.db") as base:
        await base.add_text(HOURS, source="hours")
    with pytest.raises(ValueError, match="has no vectors"):
        await KnowledgeBase(tmp_path / "k.db", embedder=embedder()).open()
    async with KnowledgeBase(tmp_path / "k.db") as base:
        await base.clear()
    async with KnowledgeBase(tmp_path / "k.db", embedder=embedder()) as base:
        await base.add_text(HOURS, source="hours")
        assert await found(base, "shut") == ["hours"]


async def test_an_embedder_that_fails_changes_nothing() -> None:
    failing = embedder().when("refund", error=ProviderError("out of memory", provider="scripted"))
    async with KnowledgeBase(embedder=failing) as base:
        await base.add_text(HOURS, source="a")
        with pytest.raises(ProviderError, match="out of memory"):
            await base.add_text(RETURNS, source="a")
        assert await found(base, "open") == ["a"]

    class Short(ScriptedEmbedder):
        async def embed(self, texts: object) -> list[list[float]]:
            return [[1.0]]

    async with KnowledgeBase(embedder=Short()) as base:
        with pytest.raises(ProviderProtocolError, match="needed 1 vectors of 2 dimensions, got 1 of"):
            await base.add_text(HOURS)


async def test_a_long_document_is_embedded_in_parts() -> None:
    counting = embedder()
    async with KnowledgeBase(embedder=counting) as base:
        assert await base.add_text("\n\n".join(f"{'word ' * 110}{number}." for number in range(150))) == 150
    assert [len(texts) for texts in counting.asked] == [100, 50]


async def test_the_scripted_embedder_keeps_the_promises_of_the_port() -> None:
    await check_embedder(embedder_of_check)


def embedder_of_check() -> ScriptedEmbedder:
    return ScriptedEmbedder().when("nine", 1, 0).when("cake", 0, 1)
