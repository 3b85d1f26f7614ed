"""Utterance: a turn's text as words without punctuation, and the mark at its end."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+(?:['’@.\-][^\W_]+)*")
_MARK = re.compile(r"(\?|!|\.{3}|…|\.|,|;|:|[-–—])[\s\"'”»)]*$")

PATTERN_WORDS = 60
"""A limit for patterns, whose time may grow with the square of the text; the end of a turn is enough for a verdict."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """The input of the rules.

    Args:
        words: In lower case, apostrophes straight; spelled letters are words of their own, also in `S-M-I`.
        mark: The punctuation at the end, of `? ! . … , ; : -`, or empty.
    """

    words: tuple[str, ...]
    mark: str

    @classmethod
    def parse(cls, text: str) -> Utterance:
        """Split a text into words and its mark."""
        words: list[str] = []
        for word in _WORD.findall(text.lower().replace("’", "'")):
            parts = re.split(r"[.\-]", word)
            words += parts if len(parts) > 1 and all(len(part) == 1 for part in parts) else [word]
        found = _MARK.search(text)
        mark = found[1] if found else ""
        return cls(tuple(words), {"...": "…", "–": "-", "—": "-"}.get(mark, mark))

    @property
    def plain(self) -> str:
        """The last `PATTERN_WORDS` words with one space between them, for patterns; `…` stands for earlier words."""
        if len(self.words) <= PATTERN_WORDS:
            return " ".join(self.words)
        return " ".join(("…", *self.words[-PATTERN_WORDS:]))

    @property
    def last(self) -> str:
        """The last word."""
        return self.words[-1]
