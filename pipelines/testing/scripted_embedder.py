"""ScriptedEmbedder: an embedder whose vectors a test chooses, and the check of the port's promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import anyio

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.embedder.base import MOST_TEXTS, Embedder, Embeddings
from vivavoce.pipelines.testing.promises import LIMIT, require, within
from vivavoce.pipelines.testing.script import wait


@dataclass(frozen=True, slots=True)
class _Rule:
    words: str
    vector: tuple[float, ...]
    delay: float
    error: ProviderError | None


class ScriptedEmbedder(Embedder):
    """Gives each text the sum of the vectors of all words in it: `ScriptedEmbedder().when("opening hours", 1, 0)`.

    Args:
        dimensions: Of the vectors; a text without such words gets zeros.
        model: The name of the model.
        tokens: That it reports for each text; None: it reports none.
    """

    provider = "scripted"

    def __init__(self, *, dimensions: int = 2, model: str = "embedder", tokens: int | None = None) -> None:
        self._dimensions = dimensions
        self._model = model
        self._tokens = tokens
        self._rules: list[_Rule] = []
        self.asked: list[tuple[str, ...]] = []
        """The texts of each call, oldest first."""
        self.asked_at: list[float] = []
        """Loop times of the calls."""

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def when(self, words: str, *vector: float, delay: float = 0.0, error: ProviderError | None = None) -> Self:
        """Add this vector to those of each text with these words, in upper or lower case.

        Args:
            delay: Seconds that a call with such a text takes; `HANG` for ever.
            error: Raised by a call with such a text, after the delay.
        """
        self._rules.append(_Rule(words.casefold(), vector, delay, error))
        return self

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors.

        Raises:
            ProviderError: The script raises it.
        """
        self.asked.append(tuple(texts))
        self.asked_at.append(anyio.current_time())
        vectors = [[0.0] * self._dimensions for _ in texts]
        for text, vector in zip(texts, vectors, strict=True):
            for rule in (rule for rule in self._rules if rule.words in text.casefold()):
                await wait(rule.delay)
                if rule.error is not None:
                    raise rule.error
                for place, number in enumerate(rule.vector):
                    vector[place] += number
        return Embeddings(vectors, input_tokens=None if self._tokens is None else self._tokens * len(texts))


async def check_embedder(make: Callable[[], Embedder]) -> None:
    """Check the promises of an embedder: a vector of its dimensions for each text, in order, each text for itself.

    Raises:
        AssertionError: It breaks a promise; the text says which.
    """
    texts = ["We open at nine.", "The cake is sold out.", "We open at nine."]
    async with make() as embedder:
        with within(LIMIT, embedder, "embed()"):
            none = list(await embedder.embed([]))
            vectors = [list(vector) for vector in await embedder.embed(texts)]
            many = await embedder.embed(["word"] * MOST_TEXTS)
        lengths = [len(vector) for vector in vectors]
        require(none == [], embedder, "no vector for no text", none)
        require(lengths == [embedder.dimensions] * 3, embedder, "`dimensions` numbers for each text", lengths)
        require(all(map(math.isfinite, sum(vectors, []))), embedder, "finite numbers", vectors)
        require(_are_near(vectors[0], vectors[2]), embedder, "one vector for one text, at the text's place", vectors)
        require(not _are_near(vectors[0], vectors[1]), embedder, "other vectors for other texts", vectors)
        require(len(many) == MOST_TEXTS, embedder, f"a vector for each of {MOST_TEXTS} texts", len(many))
        await embedder.aclose()  # twice is fine


def _are_near(vector: Sequence[float], other: Sequence[float]) -> bool:
    return all(math.isclose(one, two, abs_tol=1e-3) for one, two in zip(vector, other, strict=True))
