"""EmbedderUse: counts what a session needs of embedders, with a span of each request; CountedBase does so by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.knowledge.base import KnowledgeBase
from vivavoce.agents.knowledge.passages import Passage
from vivavoce.agents.records import UsageRecord
from vivavoce.agents.turn_records.turn_record import EstimatedUsage
from vivavoce.pipelines.core.members import name_of
from vivavoce.pipelines.embedder.base import CountTokens, Embedder, on_request
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.chat_units import BYTES_PER_TOKEN

if TYPE_CHECKING:
    from vivavoce.agents.core.context import SessionContext

AddUsage = Callable[[UsageRecord], None]


class EmbedderUse:
    """The use of embedders by one session: in its usage, and so in its budget."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context

    @contextmanager
    def counted(self, also: AddUsage | None = None) -> Iterator[None]:
        """Count the requests in the block, and those of tasks that it starts.

        Args:
            also: Called with the usage of each too.
        """
        token = on_request.set(partial(self._request, also))
        try:
            yield
        finally:
            on_request.reset(token)

    @contextmanager
    def _request(self, also: AddUsage | None, embedder: Embedder, texts: Sequence[str]) -> Iterator[CountTokens]:
        with self._context.observer.embeddings(embedder.provider, embedder.model, embedder.dimensions) as watch:

            def count(tokens: int | None) -> None:
                usage = _estimate(texts) if tokens is None else Usage(input_tokens=tokens)
                watch.take(usage)
                used = UsageRecord(embedding_tokens=usage.input_tokens)
                self._context.inbox.on_loop(partial(self._add, used, name_of(embedder), also))

            try:
                yield count
            except anyio.get_cancelled_exc_class():  # the server has the request
                count(None)
                raise

    def _add(self, used: UsageRecord, model: str, also: AddUsage | None) -> None:
        self._context.add_usage(used, "embedder", model)
        if also is not None:
            also(used)


class CountedBase(KnowledgeBase):
    """The documents of one session alone: what they need of an embedder counts there, whoever calls them."""

    def __init__(self, embedder: Embedder | None, use: EmbedderUse) -> None:
        super().__init__(embedder=embedder)
        self._use = use

    async def add_text(self, text: str, *, source: str = "", metadata: Mapping[str, Any] | None = None) -> int:
        with self._use.counted():
            return await super().add_text(text, source=source, metadata=metadata)

    async def add_file(self, path: str | Path) -> int:
        with self._use.counted():
            return await super().add_file(path)

    async def search(self, query: str, k: int = 4) -> list[Passage]:
        with self._use.counted():
            return await super().search(query, k)


def _estimate(texts: Sequence[str]) -> EstimatedUsage:
    return EstimatedUsage(input_tokens=sum(math.ceil(len(text.encode()) / BYTES_PER_TOKEN) for text in texts))
