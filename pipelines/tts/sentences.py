"""Cutting text into sentences for voices that take whole ones, as soon as each is certain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentence_stream import SentenceBoundaryDetector


async def sentences(text: str | AsyncIterator[str]) -> AsyncGenerator[str, None]:
    """Yield the sentences of `text`, whole or as it comes; the last one when the text ends.

    A sentence is certain once the next one has begun. Emphasis marks (`*`) and surrounding white space are left out,
    as they are not spoken.
    """
    detector = _detector()
    if isinstance(text, str):
        for sentence in detector.add_chunk(text):
            yield sentence
    else:
        async for piece in text:
            for sentence in detector.add_chunk(piece):
                yield sentence
    if rest := detector.finish():
        yield rest


def _detector() -> SentenceBoundaryDetector:
    from sentence_stream import SentenceBoundaryDetector  # its regex library takes a while to load

    return SentenceBoundaryDetector()
