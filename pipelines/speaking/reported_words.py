"""ReportedWords: where the words that a voice reports end in the text that it received.

Voices report words in their own form: in other case, a number in words or in digits, two words as one, or a word in
pieces. So a report is compared with the next words of the text by their letters, and the first equal word counts that
is near enough; two equal words in a row may be further on. A report without an equal word ends by the length of its
letters, until a later one is found; then the reports between the two share the text between them. A single equal word
may be another one than was spoken: until the next report confirms it, reports without an equal word catch up with it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vivavoce.pipelines.core.words import EDGE_PUNCTUATION, is_letter, letters_of, word_spans
from vivavoce.pipelines.tts.base import Word

NEAR = 12.0
"""Letters between two equal words that no report is for, such as a short word that the voice leaves out."""
LETTERS_PER_SECOND = 25.0
"""The pace of a voice, at most."""
FAR = 300.0
"""Letters behind which no word is looked for. After half as many without an equal word, the place by length counts."""
PAIR = 3
"""Two equal words in a row are looked for so many times as far as one."""
LETTERS_OF_A_DIGIT = 5
LETTERS_OF_A_SIGN = 3
"""Letters by which a Han sign, or another wide one, is spoken."""
CLOSING = frozenset(EDGE_PUNCTUATION) - frozenset("¿¡`‘“„«([（「『《–—")


class _Place(NamedTuple):
    """A word of the text: its letters, and where the last of them ends."""

    letters: str
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
        self._ahead = 0.0
        """Letters by which that word is further on than its report, if the next report has not confirmed it."""
        self._pending: list[float] = []
        """The lengths, in letters, of the reports since then, none of which has an equal word."""
        self._begun = 0
        """Letters of the next word, if these reports are its first pieces."""
        self._last = ""
        """The letters of the newest of these reports."""
        self._end = 0
        """Where the newest report ends."""
        self._time: float | None = None
        """When it ends, in seconds."""
        self._unreported = 0.0
        """Letters for which there was time between the reports since the last word that was found."""

    def skip_to(self, at: int) -> None:
        """Look for the next words behind that place of the text."""
        if at > self._at:
            self._go_to(at)

    def take(self, word: Word, text: str, stop: int) -> list[int]:
        """Take the next report; return the ends in `text` of the newest reports, this one last.

        The ends before the last one are those of earlier reports that this one moves.

        Args:
            text: May grow between the calls.
            stop: The end of the part that is spoken.
        """
        said, stop = word.text.strip(), max(self._at, min(stop, len(text)))
        letters = letters_of(said)
        if not letters:
            return self._take_signs(said, text, stop)
        if self._time is not None:
            self._unreported += LETTERS_PER_SECOND * max(0.0, word.start - self._time)
        self._time = word.end
        reach = min(FAR, max(0.0, self._near + self._spoken) + self._unreported)
        words = list(_words(text, self._at, stop, min(FAR, PAIR * reach) + len(letters)))
        found = self._find(letters, words, reach)
        if found is not None:
            place, end = found
            return self._found(words[:place], _with_signs(text, end, stop, said), text)
        self._pending.append(_length(letters))
        self._last = letters
        if not self._begun:
            self._end = self._reached(words, self._spoken, text, stop)
        if self._spoken > FAR / 2:
            self._go_to(self._end)
        return [self._end]

    @property
    def _spoken(self) -> float:
        """About how many letters were spoken behind the last word that was found; below 0 if it is ahead of them."""
        return sum(self._pending) - self._ahead

    def _take_signs(self, said: str, text: str, stop: int) -> list[int]:
        begin = stop - len(text[self._at : stop].lstrip())
        if said and not self._pending and text.startswith(said, begin, stop):
            return self._found((), begin + len(said), text)
        self._pending.append(0.0)
        return [self._end]

    def _find(self, letters: str, words: Sequence[_Place], reach: float) -> tuple[int, int] | None:
        """Return the number of the first word that the report is for, and the end of the last one; or note that it
        is a piece of the next word."""
        if not words:
            return None
        begun, self._begun = self._begun, 0
        if begun or not any(self._pending):
            left = words[0]._replace(letters=words[0].letters[begun:])
            if (end := _match(letters, [left, *words[1:]], 0)) is not None:
                return 0, end
            if left.letters.startswith(letters):
                self._begun = begun + len(letters)
                return None
        if begun:  # "it", "is" for "it's"
            return None
        found = _search(letters, words, reach)
        return found or (_search(self._last + letters, words, PAIR * reach) if self._last else None)

    def _found(self, gap: Sequence[_Place], end: int, text: str) -> list[int]:
        """Note that the newest report ends at `end`; the reports without an equal word are for the words of `gap`."""
        ends, letters = list[int](), 0.0
        skipped, reported = sum(_length(one.letters) for one in gap), sum(self._pending)
        for length in self._pending:
            letters += length * skipped / max(1.0, reported)
            ends.append(self._reached(gap, letters, text, end))
        self._go_to(max(self._at, end), max(0.0, skipped - self._spoken) if skipped or reported else 0.0)
        return [*ends, self._end]

    def _go_to(self, at: int, ahead: float = 0.0) -> None:
        self._at = self._end = at
        self._ahead = ahead
        self._unreported, self._begun = 0.0, 0
        self._last = ""
        self._pending.clear()

    def _reached(self, words: Sequence[_Place], letters: float, text: str, stop: int) -> int:
        """Return the end of the last of `words` of which at least half is in the first `letters`, with the punctuation
        that closes it."""
        end = self._at
        for one in words:
            length = _length(one.letters)
            if letters < length / 2:
                break
            end = one.end
            letters -= length
        while self._at < end < stop and text[end] in CLOSING:
            end += 1
        return end


def _words(text: str, start: int, stop: int, letters: float) -> Iterator[_Place]:
    """Yield the words of a part of the text, until there are more than so many letters."""
    stop = min(stop, start + 3 * int(letters) + 100)  # signs included; texts without spaces are long
    for begin, end in word_spans(text, start, stop):
        one = _Place(letters_of(text[begin:end]), end)
        if one.letters:
            yield one
            letters -= len(one.letters)
            if letters < 0:
                return


def _search(letters: str, words: Sequence[_Place], reach: float) -> tuple[int, int] | None:
    """Return the number of the first of the words that together have these letters, and the end of the last one."""
    skipped = 0.0
    for place, one in enumerate(words):
        if (end := _match(letters, words, place)) is not None:
            return place, end
        skipped += _length(one.letters)
        if skipped > reach:
            break
    return None


def _match(letters: str, words: Sequence[_Place], place: int) -> int | None:
    """Return the end of the words from number `place` on that together have these letters, if they do."""
    at = 0
    for number in range(place, len(words)):
        if not letters.startswith(words[number].letters, at):
            return None
        at += len(words[number].letters)
        if at == len(letters):
            return words[number].end
    return None


def _with_signs(text: str, end: int, stop: int, said: str) -> int:
    """Return `end` behind the signs that the text has there and the report at its end."""
    letters = next(at for at in range(len(said), 0, -1) if is_letter(said[at - 1]))
    for sign in said[letters:]:
        if end < stop and text[end] == sign:
            end += 1
    return end


def _length(letters: str) -> float:
    """Return about how many letters a voice speaks for these."""
    return sum(map(_sign_length, letters))


def _sign_length(sign: str) -> int:
    if sign.isascii():
        return LETTERS_OF_A_DIGIT if sign.isdigit() else 1
    return LETTERS_OF_A_SIGN if unicodedata.east_asian_width(sign) in "WF" else 1
