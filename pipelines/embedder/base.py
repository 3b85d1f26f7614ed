"""Embedder: the port of models that turn texts into vectors. The boundary to its code: `embedded`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from vivavoce.pipelines.core.boundary import provider_errors
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ProviderProtocolError


class Embedder(Component, ABC):
    """Turns texts into vectors. Vectors of two models cannot be compared, so `model` names it exactly."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The length of each vector, known before the first call."""

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text, in their order, of any length but zero. The caller limits the number of texts
        (`MOST_TEXTS`) and the time. Cancelling it cancels the request.

        Raises:
            ProviderError: The model failed. Any other exception counts as one.
        """


MOST_TEXTS = 100
"""Texts of one call of `embed()`."""


async def embedded(embedder: Embedder, texts: Sequence[str]) -> list[Sequence[float]]:
    """Return the vectors of any number of texts.

    Raises:
        ProviderError: The model failed, or returned something else than a vector of its dimensions for each text.
    """
    found: list[Sequence[float]] = []
    for start in range(0, len(texts), MOST_TEXTS):
        part = texts[start : start + MOST_TEXTS]
        with provider_errors(embedder.provider):
            vectors = [tuple(float(number) for number in vector) for vector in await embedder.embed(part)]
            lengths = {len(vector) for vector in vectors}
        if len(vectors) != len(part) or lengths != {embedder.dimensions}:
            raise ProviderProtocolError(
                f"needed {len(part)} vectors of {embedder.dimensions} dimensions, got {len(vectors)} of "
                f"{sorted(lengths)}; check the embedder's model and dimensions",
                provider=embedder.provider,
            )
        found += vectors
    return found
