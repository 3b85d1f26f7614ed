"""SpokenText: the part of a written text that was spoken, when text filters gave the voice other words.

The two texts are aligned word by word (difflib): equal words are certain; text between equal words ("$23", spoken
"twenty-three dollars") counts as spoken with the last word in its place; within a longer stretch, by proportion.
"""

from __future__ import annotations

from bisect import bisect_right
from difflib import SequenceMatcher

from vivavoce.pipelines.core.words import is_letter, letters_of, pieces
from vivavoce.pipelines.speaking.reported_words import ReportedWords
from vivavoce.pipelines.tts.base import Word


class SpokenText:
    """Collects written and spoken text, and maps the voice's words to words of the written text."""

    def __init__(self) -> None:
        self._original = ""
        self._spoken = ""
        self._new: list[tuple[str, str]] = []
        self._said_ends: list[int] = []
        """Ends of words in the spoken text, at which a part of the written text is complete …"""
        self._original_ends: list[int] = []
        """… that ends here."""
        self._words = ReportedWords()
        self._parts = ReportedWords(near=60)
        self._part_cursor = 0
        self._returned = 0
        self._start: float | None = None

    def add(self, original: str, spoken: str) -> None:
        """Add the next piece and its spoken form."""
        self._new.append((original, spoken))

    def words(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """Return the words of the written text that are complete after `words` of the spoken text, with their times."""
        self._align()
        complete: list[Word] = []
        for word in words:
            if self._start is None:
                self._start = word.start
            end = self.written_end(self._words.take(word, self._spoken, len(self._spoken))[-1])
            if end > self._returned:
                text = self._original[self._returned : end].strip()
                complete.append(Word(text, self._start, word.end))
                self._returned, self._start = end, None
        return tuple(complete)

    def part(self, spoken: str) -> str:
        """Return the part of the written text for `spoken`, the next part of the spoken text."""
        begin = self.written_end(self._part_cursor)
        self._part_cursor = self._parts.take(Word(spoken, 0.0, 0.0), self._spoken, len(self._spoken))[-1]
        return self._original[begin : self.written_end(self._part_cursor)].strip()

    def written(self, start: int, end: int) -> str:
        """Return the written text for the spoken characters from `start` to `end`."""
        begin, stop = self.written_end(start), self.written_end(end)
        return self._original[begin:stop].strip()

    def written_end(self, said: int) -> int:
        """Return how much of the written text is complete after `said` spoken characters, in whole words of both."""
        self._align()
        index = bisect_right(self._said_ends, said)
        return self._original_ends[index - 1] if index else 0

    def _align(self) -> None:
        for original, spoken in self._new:
            original_start, spoken_start = len(self._original), len(self._spoken)
            self._original += original
            self._spoken += spoken
            for said, end in _ends(original, spoken):
                self._said_ends.append(spoken_start + said)
                self._original_ends.append(original_start + end)
        self._new.clear()


def _ends(original: str, spoken: str) -> list[tuple[int, int]]:
    """Return pairs of ends, in the spoken text and in the original, rising; the last one ends the original."""
    ours, theirs = _tokens(original), _tokens(spoken)
    ends: list[tuple[int, int]] = []
    matcher = SequenceMatcher(None, [key for key, _, _ in ours], [key for key, _, _ in theirs], autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        done = i1
        for j in range(j1, j2):
            reached = i1 + (j + 1 - j1) * (i2 - i1) // (j2 - j1)
            if reached > done:
                done = reached
                ends.append((theirs[j][1], ours[done - 1][2]))
    if ends:
        ends[-1] = (ends[-1][0], len(original))
    return ends


def _tokens(text: str) -> list[tuple[str, int, int]]:
    """Return each word's key, its end without trailing signs, and its whole end."""
    tokens = []
    for start, end in pieces(text):
        piece = text[start:end]
        key = letters_of(piece)
        if key:
            tail = next(at for at, sign in enumerate(reversed(piece)) if is_letter(sign))
            tokens.append((key, end - tail, end))
    return tokens
