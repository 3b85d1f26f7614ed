"""Cutting text into sentences for voices that take whole ones, as soon as each is certain."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentence_stream import SentenceBoundaryDetector

_WORDS = re.compile(r"\S+\s*|\s+")

_ABBREVIATIONS = frozenset(
    "Abs Apr Art Aug Ave Bd Bt Cap Cf Co Col Cpl Dec Dr Esq Ext Feb Fig Fr Fri Ft Gen Gov Hon Hr Inc Jan Jr Jul Jun "
    "Lt Ltd Mag Maj Mar Mlle Mme Mon Mr Mrs Ms Mt Nos Nov Nr Oct Ph Rd Rep Rev Sat Sen Sep Sgt Sr Sra Srs St Ste Str "
    "Sun Thu Tue Vol Vs Wed".split()
)
"""Short capitalised words that a full stop follows inside a sentence; those of one letter count anyway."""


async def sentences(text: str | AsyncIterator[str]) -> AsyncGenerator[str, None]:
    """Yield the sentences of `text`, whole or as it comes; the last one when the text ends.

    A sentence is certain once the next one has begun. Emphasis marks (`*`) and surrounding white space are left out,
    as they are not spoken.
    """
    cutter = _Cutter()
    if isinstance(text, str):
        for sentence in cutter.push(text):
            yield sentence
    else:
        async for piece in text:
            for sentence in cutter.push(piece):
                yield sentence
    if rest := cutter.finish():
        yield rest


class _Cutter:
    """sentence-stream's detector, which takes any short capitalised word before a full stop for an abbreviation.

    An answer that begins with "Yes." or "Hi." would be held back by a whole sentence, so what it holds is let go here
    when it is no known abbreviation.
    """

    def __init__(self) -> None:
        from sentence_stream import SentenceBoundaryDetector  # its regex library takes a while to load

        self._detector: SentenceBoundaryDetector = SentenceBoundaryDetector()

    def push(self, text: str) -> Iterator[str]:
        """Take more text and yield the sentences that are certain now."""
        detector = self._detector
        for word in _WORDS.findall(text):  # one by one, or the detector joins what it holds to what follows
            yield from detector.add_chunk(word)
            if detector.current_sentence and not _ends_abbreviated(detector.current_sentence):
                rest, detector.remaining_text = detector.remaining_text, ""
                if sentence := detector.finish():
                    yield sentence
                detector.remaining_text = rest

    def finish(self) -> str:
        """Return what is left."""
        return self._detector.finish()


def _ends_abbreviated(text: str) -> bool:
    last = re.split(r"[\s.]", text.strip().removesuffix("."))[-1]
    return len(last) == 1 or last in _ABBREVIATIONS
