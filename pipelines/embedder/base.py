"""Embedder: the port of models that turn texts into vectors. The boundary to its code: `embedded`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

from vivavoce.pipelines.core.boundary import provider_errors
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ProviderProtocolError


class Embeddings(list[list[float]]):
    """The vectors of some texts, with the tokens of the texts, where the model reports them.

    Args:
        input_tokens: None: it reports none.
    """

    def __init__(self, vectors: Iterable[list[float]], *, input_tokens: int | None = None) -> None:
        super().__init__(vectors)
        self.input_tokens = input_tokens


class Embedder(Component, ABC):
    """Turns texts into vectors. Vectors of two models cannot be compared, so `model` names it exactly."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The length of each vector, known before the first call."""

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text, in their order, of any length but zero; `Embeddings` say the usage too. The
        caller limits the number of texts (`MOST_TEXTS`) and the time. Cancelling it cancels the request.

        Raises:
            ProviderError: The model failed. Any other exception counts as one.
        """


MOST_TEXTS = 100
"""Texts of one call of `embed()`."""

CountTokens = Callable[[int | None], None]
"""Called with the tokens of a request that was answered; None: the model reports none."""

OnRequest = Callable[[Embedder, Sequence[str]], AbstractContextManager[CountTokens]]
"""Called with each request to an embedder; what it returns is entered for as long as the request takes."""

on_request: ContextVar[OnRequest | None] = ContextVar("on_embedding_request", default=None)
"""The listener for requests of this task, and of the tasks that it starts."""


async def embedded(embedder: Embedder, texts: Sequence[str]) -> list[Sequence[float]]:
    """Return the vectors of any number of texts.

    Raises:
        ProviderError: The model failed, or returned something else than a vector of its dimensions for each text.
    """
    found: list[Sequence[float]] = []
    for start in range(0, len(texts), MOST_TEXTS):
        part = texts[start : start + MOST_TEXTS]
        vectors, lengths = await _request(embedder, part)
        if len(vectors) != len(part) or lengths != {embedder.dimensions}:
            raise ProviderProtocolError(
                f"needed {len(part)} vectors of {embedder.dimensions} dimensions, got {len(vectors)} of "
                f"{sorted(lengths)}; check the embedder's model and dimensions",
                provider=embedder.provider,
            )
        found += vectors
    return found


async def _request(embedder: Embedder, texts: Sequence[str]) -> tuple[list[tuple[float, ...]], set[int]]:
    listener = on_request.get()
    request = nullcontext(_count_nothing) if listener is None else listener(embedder, texts)
    with request as count, provider_errors(embedder.provider):
        answer = await embedder.embed(texts)
        count(answer.input_tokens if isinstance(answer, Embeddings) else None)
        vectors = [tuple(map(float, vector)) for vector in answer]
        if not all(math.isfinite(sum(vector)) for vector in vectors):
            raise ProviderProtocolError("needed finite numbers, got others", provider=embedder.provider)
        return vectors, {len(vector) for vector in vectors}


def _count_nothing(tokens: int | None) -> None:
    """No listener: nothing is counted."""
