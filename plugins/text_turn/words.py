"""Utterance: a turn's text as words without punctuation, and the mark that it ends with."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+(?:['’@.\-][^\W_]+)*")
_MARK = re.compile(r"(\?|!|\.{3}|…|\.|,|;|:|[-–—])[\s\"'”»)]*$")

PATTERN_WORDS = 60
"""Patterns may take time that grows with the square of what they see; the end of a turn says whether it is one."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the rules look at.

    Args:
        words: In lower case, apostrophes straight; spelled letters are words of their own, also in `S-M-I`.
        mark: The punctuation at the end, of `? ! . … , ; : -`, or empty.
    """

    words: tuple[str, ...]
    mark: str

    @classmethod
    def parse(cls, text: str) -> Utterance:
        """Take a text apart."""
        words: list[str] = []
        for word in _WORD.findall(text.lower().replace("’", "'")):
            parts = re.split(r"[.\-]", word)
            words += parts if len(parts) > 1 and all(len(part) == 1 for part in parts) else [word]
        found = _MARK.search(text)
        mark = found[1] if found else ""
        return cls(tuple(words), {"...": "…", "–": "-", "—": "-"}.get(mark, mark))

    @property
    def plain(self) -> str:
        """The last `PATTERN_WORDS` words with one space between them, for patterns; `…` stands for what was before."""
        if len(self.words) <= PATTERN_WORDS:
            return " ".join(self.words)
        return " ".join(("…", *self.words[-PATTERN_WORDS:]))

    @property
    def last(self) -> str:
        """The last word."""
        return self.words[-1]
