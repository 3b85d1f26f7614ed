"""ReportedWords: where the words that a voice reports end in the text that it received.

Voices report words in their own form: in other case, a number in words or in digits, two words as one, or a word in
pieces. So a report is compared with the next words of the text by their letters, and the first equal word counts that
is near enough for the time since the last one. A report without an equal word ends by the length of its letters, until
a later one is found; then the reports between the two share the text between them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vivavoce.pipelines.core.words import EDGE_PUNCTUATION, is_letter, word_spans
from vivavoce.pipelines.tts.base import Word

NEAR = 12.0
"""Letters between two equal words that no report is for, such as a short word that the voice leaves out."""
LETTERS_PER_SECOND = 25.0
"""The pace of a voice, at most."""
FAR = 300.0
"""Letters behind which no word is looked for. After as many without an equal word, the place by length counts."""
LETTERS_OF_A_DIGIT = 5
LETTERS_OF_A_SIGN = 3
"""Letters by which a Han sign, or another wide one, is spoken."""
CLOSING = frozenset(EDGE_PUNCTUATION) - frozenset("¿¡`‘“„«([（「『《–—")


class _Place(NamedTuple):
    """A word of the text: its letters, and where the last of them ends."""

    key: str
    end: int


class ReportedWords:
    """Finds the words of one voice in one text, in order.

    Args:
        near: See `NEAR`.
    """

    def __init__(self, near: float = NEAR) -> None:
        self._near = near
        self._at = 0
        """The end of the last word that was found."""
        self._since: float | None = None
        """When that word ends, in seconds."""
        self._begun = 0
        """Letters of the next word that reports of its pieces have covered."""
        self._pending: list[float] = []
        """The lengths, in letters, of reports since then without an equal word."""
        self._end = 0

    def skip_to(self, at: int) -> None:
        """Look for the next words behind that place of the text."""
        if at > self._at:
            self._at = self._end = at
            self._begun = 0
            self._pending.clear()

    def take(self, word: Word, text: str, stop: int) -> list[int]:
        """Take the next report; return the ends in `text` of the newest reports, this one last.

        The ends before the last one are those of earlier reports that this one moves.

        Args:
            text: May grow between the calls.
            stop: The end of the part that is spoken.
        """
        stop, said, key = min(stop, len(text)), word.text.strip(), _key(word.text)
        if not key:  # signs alone
            begin = stop - len(text[self._at : stop].lstrip())
            return self._found([], begin + len(said), word.end) if text.startswith(said, begin) else [self._end]
        since = word.start if self._since is None else self._since
        near = self._near + 2 * sum(self._pending) + LETTERS_PER_SECOND * max(0.0, word.start - since)
        near = min(near, FAR)
        words = list(_words(text, self._at, stop, near + len(key)))
        if self._begun and words:
            begun, self._begun = self._begun, 0
            rest = [_Place(words[0].key[begun:], words[0].end), *words[1:]]
            end = _match(key, rest, 0)
            if end is not None:
                return self._found([], _with_signs(text, end, stop, said), word.end)
            if rest[0].key.startswith(key):
                self._begun = begun + len(key)
                return [self._end]
        skipped = 0.0
        for place, one in enumerate(words):
            end = _match(key, words, place)
            if end is not None:
                return self._found(words[:place], _with_signs(text, end, stop, said), word.end)
            if not place and not self._pending and one.key.startswith(key):
                self._begun = len(key)
                return [self._end]
            skipped += _length(one.key)
            if skipped > near:
                break
        self._pending.append(_length(key))
        self._end = self._reached(words, sum(self._pending), text, stop)
        if sum(self._pending) > FAR / 2:
            return self._found([], self._end, word.end)[-1:]
        return [self._end]

    def _found(self, gap: Sequence[_Place], end: int, time: float) -> list[int]:
        """Note that the newest report ends at `end`; those before it, which had no equal word, are the words of
        `gap`."""
        moved, letters = list[int](), 0.0
        whole = sum(_length(one.key) for one in gap) / max(1.0, sum(self._pending))
        for length in self._pending:
            letters += length
            moved.append(self._reached(gap, letters * whole))
        self._at = self._end = max(self._at, end)
        self._since, self._begun = time, 0
        self._pending.clear()
        return [*moved, self._end]

    def _reached(self, words: Sequence[_Place], letters: float, text: str = "", stop: int = 0) -> int:
        """Return the end of the last of `words` of which at least half is in the first `letters`."""
        end = self._at
        for one in words:
            length = _length(one.key)
            if letters < length / 2:
                break
            end = one.end
            letters -= length
        while self._at < end < stop and text[end] in CLOSING:
            end += 1
        return end


def _words(text: str, start: int, stop: int, letters: float) -> Iterator[_Place]:
    """Yield the words of a part of the text, until there are more than so many letters."""
    for begin, end in word_spans(text, start, stop):
        key = _key(text[begin:end])
        if key:
            yield _Place(key, end)
            letters -= len(key)
            if letters < 0:
                return


def _match(key: str, words: Sequence[_Place], place: int) -> int | None:
    """Return the end of the words from number `place` on that together have the letters of `key`, if they do."""
    at = 0
    while at < len(key) and place < len(words):
        one = words[place]
        if not key.startswith(one.key, at):
            return None
        at += len(one.key)
        if at == len(key):
            return one.end
        place += 1
    return None


def _with_signs(text: str, end: int, stop: int, said: str) -> int:
    """Return `end` behind the signs that the text has there and the report at its end."""
    letters = next(at for at in range(len(said), 0, -1) if is_letter(said[at - 1]))
    for sign in said[letters:]:
        if end < stop and text[end] == sign:
            end += 1
    return end


def _key(text: str) -> str:
    return "".join(filter(is_letter, text)).casefold()


def _length(key: str) -> float:
    """Return about how many letters a voice speaks for `key`."""
    return sum(map(_sign_length, key))


def _sign_length(sign: str) -> int:
    if sign.isascii():
        return LETTERS_OF_A_DIGIT if sign.isdigit() else 1
    return LETTERS_OF_A_SIGN if unicodedata.east_asian_width(sign) in "WF" else 1
