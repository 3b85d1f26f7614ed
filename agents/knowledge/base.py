"""KnowledgeBase: the passages of documents, and the search for those that fit a question."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio

from vivavoce.agents.core.threads import SerialThread
from vivavoce.agents.knowledge.documents import HAS_HEADINGS, text_of
from vivavoce.agents.knowledge.index import IN_MEMORY, Index
from vivavoce.agents.knowledge.passages import Passage, passages_of
from vivavoce.pipelines.core.checks import check_instance, check_text, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError, StoreUnavailable
from vivavoce.pipelines.core.retry import RetryOptions, retry
from vivavoce.pipelines.embedder.base import MOST_TEXTS, Embedder, embedded

T = TypeVar("T")

LINGER = 1.0
"""Seconds for which the thread waits for further calls."""

STEPS = 1000
"""Steps of SQLite after which a search looks whether its caller has left: some tens of µs."""


class KnowledgeBase:
    """Passages of documents, in memory or in a SQLite file, which sessions and processes of one machine may share.

    All calls wait for a thread of its own. Cancelling a search ends it. The code that made the base closes it.

    Args:
        path: The file, made if it does not exist; `":memory:"` for none.
        embedder: Finds passages by their meaning. Without one, words alone count: a paraphrase is not found, nor is a
            word within a language that is written without spaces. The code that made it closes it.
    Raises:
        ConfigurationError: An argument is of another kind.
    """

    def __init__(self, path: str | Path = IN_MEMORY, *, embedder: Embedder | None = None) -> None:
        if not isinstance(path, str | Path) or not str(path):
            raise ConfigurationError(f'need path as the path of a file, or ":memory:", got {shown(path)}')
        check_instance("embedder", embedder, Embedder, or_none=True)
        self._path = str(path)
        self._embedder = embedder
        self._inherited: tuple[Index | None, ...] = ()
        """Those of the process from which this one was forked. SQLite forbids even to close their files here."""
        self._index: Index | None = None
        self._process = os.getpid()
        self._thread = SerialThread("knowledge base", linger=LINGER)
        self._documents = SerialThread("document")
        """Reads documents, which may take seconds: searches do not wait for it."""
        self._is_closed = False

    def __reduce__(self) -> tuple[Callable[..., KnowledgeBase], tuple[str]]:
        """Make a base with the same file in another process.

        Raises:
            ConfigurationError: It is in memory, which another process does not have.
        """
        if self._path == IN_MEMORY:
            raise ConfigurationError("a knowledge base in memory stays in its process; give it a path to share it")
        return (partial(KnowledgeBase, embedder=self._embedder), (self._path,))

    def __repr__(self) -> str:
        return f"KnowledgeBase({self._path!r})"

    @property
    def embedder(self) -> Embedder | None:
        """The embedder, as it was given."""
        return self._embedder

    async def open(self) -> None:
        """Open the file, which the first call does too.

        Raises:
            ConfigurationError: SQLite has no FTS5; the file is no knowledge base, or one of another embedder.
            StoreUnavailable: The file cannot be used.
        """
        await self._run(Index.warm)

    async def aclose(self) -> None:
        """Close the file; what is in memory is gone. Calling it twice is fine, every other call fails from now on."""
        self._leave_parent()
        self._is_closed = True
        await self._thread.run(self._close)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.aclose()

    # --- documents

    async def add_text(self, text: str, *, source: str = "", metadata: Mapping[str, Any] | None = None) -> int:
        """Add a text, in place of what that source had before; texts without a source add up.

        Args:
            source: Its name, which the model gets with each passage.
            metadata: JSON data that each of its passages has.
        Returns:
            The number of its passages.
        Raises:
            ConfigurationError: An argument is of another kind.
            ProviderError: The embedder failed, again too where that may help; nothing has changed.
            StoreUnavailable: The file cannot be used.
        """
        text = check_text("text", text)
        return await self._add(lambda: text, source, metadata, has_headings=False)

    async def add_file(self, path: str | Path) -> int:
        """Add a document: txt or md (UTF-8), docx, or pdf with the extra `documents`; its source is the path as given.

        Returns:
            The number of its passages.
        Raises:
            ConfigurationError: It is of another format, over 20 MB, broken, not there or without text.
            ProviderError, StoreUnavailable: As of `add_text`.
        """
        if not isinstance(path, str | Path):
            raise ConfigurationError(f"need the path of a file, got {shown(path)}")
        has_headings = Path(path).suffix.lower() in HAS_HEADINGS
        return await self._add(partial(text_of, Path(path)), str(path), None, has_headings=has_headings)

    async def _add(
        self, read: Callable[[], str], source: str, metadata: Mapping[str, Any] | None, *, has_headings: bool
    ) -> int:
        source, kept = check_text("source", source), _json(metadata)
        self._check_open()
        texts = await self._documents.run(lambda: passages_of(read(), has_headings=has_headings))
        vectors: list[bytes | None] = [None] * len(texts) if self._embedder is None else []
        while self._embedder is not None and len(vectors) < len(texts):  # Python's floats would take much memory
            request = partial(embedded, self._embedder, texts[len(vectors) : len(vectors) + MOST_TEXTS])
            vectors += await self._documents.run(_packed, await retry(request, RetryOptions()))
        await self._run(lambda index: index.add(texts, vectors, source, kept))
        return len(texts)

    async def remove(self, source: str) -> int:
        """Remove a source; return the number of passages that it had.

        Raises:
            StoreUnavailable: The file cannot be used; as of all calls below.
        """
        source = check_text("source", source)
        return await self._run(lambda index: index.remove(source))

    async def clear(self) -> None:
        """Remove everything."""
        await self._run(Index.clear)

    async def is_empty(self) -> bool:
        """Return whether it has no passage."""
        return await self._run(Index.is_empty)

    # --- searching

    async def search(self, query: str, k: int = 4) -> list[Passage]:
        """Return the `k` passages that fit best, the best one first. The words of the query are no syntax.

        Raises:
            ConfigurationError: `k` is no number of passages.
            ProviderError: The embedder failed.
        """
        check_whole("k", k, at_least=1)
        query = check_text("query", query)
        if not query.strip():
            return []
        self._check_open()
        if self._embedder is None:
            return await self._run(lambda index: index.search(query, None, k), only_reads=True)
        vectors = await embedded(self._embedder, [query])
        return await self._run(lambda index: index.search(query, _packed(vectors)[0], k), only_reads=True)

    # --- the thread

    async def _run(self, work: Callable[[Index], T], *, only_reads: bool = False) -> T:
        """Return the result of some work in the thread. If cancelled, end a search, also one that has begun."""
        self._leave_parent()
        call = _Call(self._opened, work, only_reads=only_reads)
        try:
            return await self._thread.run(call.make)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the knowledge base {self._path} cannot be used: {error}") from error
        except OSError as error:
            reason = error.strerror or error
            raise StoreUnavailable(f"the knowledge base {self._path} cannot be used: {reason}") from error
        finally:
            call.give_up()

    def _leave_parent(self) -> None:
        """Begin anew if this process was forked; what is in memory is there too."""
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        self._thread = SerialThread("knowledge base", linger=LINGER)
        self._documents = SerialThread("document")
        if self._path != IN_MEMORY:
            self._inherited, self._index = (*self._inherited, self._index), None

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError("the knowledge base is closed; make another one")

    def _opened(self) -> Index:
        self._check_open()
        if self._index is None:
            if self._embedder is None:
                model = ("", 0)
            else:
                model = (self._embedder.model, self._embedder.dimensions)
            if self._path != IN_MEMORY:
                Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._index = Index(self._path, model)
        return self._index

    def _close(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            index.close()


class _Call:
    """Some work in the thread, which its caller can end."""

    def __init__(self, opened: Callable[[], Index], work: Callable[[Index], Any], *, only_reads: bool) -> None:
        self._opened = opened
        self._work = work
        self._only_reads = only_reads
        self._is_given_up = False

    def make(self) -> Any:
        index = self._opened()
        if self._is_given_up:
            return None
        if self._only_reads:
            index.warm()  # before it can be ended, or a base that takes longer to read would never be read
            # `interrupt()` has no effect on a statement that is about to begin
            index.database.set_progress_handler(lambda: self._is_given_up, STEPS)
        try:
            return self._work(index)
        finally:
            index.database.set_progress_handler(None, 0)

    def give_up(self) -> None:
        """Let the work not begin; if it only reads, end it. Nothing happens when it is over."""
        self._is_given_up = True


def _packed(vectors: Sequence[Sequence[float]]) -> list[bytes]:
    """Return vectors as an index keeps them; in a thread, since numpy may have to be loaded."""
    from vivavoce.agents.knowledge.vectors import packed

    return [packed(vector) for vector in vectors]


def _json(metadata: Mapping[str, Any] | None) -> str:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigurationError(f'need metadata as a dict, got {shown(metadata)}; such as {{"page": 3}}')
    try:
        return json.dumps({} if metadata is None else dict(metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"need metadata as JSON data, got {shown(metadata)}") from error
