"""Word times: of the words of a text, from those of the words that the voice reads for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from vivavoce.pipelines.core.words import letters_of
from vivavoce.pipelines.tts.base import Word


@dataclass(frozen=True, slots=True)
class ReadWord:
    """A word as the voice reads it ("thirty" for the 30 of 7:30), and its time in seconds."""

    text: str
    start: float
    end: float

    def later(self, seconds: float) -> ReadWord:
        """Return the word, moved by some seconds, but not before 0."""
        return ReadWord(self.text, max(0.0, self.start + seconds), max(0.0, self.end + seconds))


def words_of_text(text: str, read: Sequence[ReadWord]) -> tuple[Word, ...]:
    """Return the words of `text`, each piece between white space, with their times.

    Words that are read as they are written have their time. Words that are read in other ones share the time of those,
    by their length ("Dr." is "Doctor", "7:30 pm" is five words). Pieces without letters belong to the word before.
    """
    texts = _joined(text.split())
    if not texts or not read:
        return ()
    written = [letters_of(one) for one in texts]
    spoken = [letters_of(one.text) for one in read]
    words: list[Word] = []
    at = read[0].start
    for kind, begin, stop, first, last in SequenceMatcher(None, written, spoken, autojunk=False).get_opcodes():
        if kind == "equal" or stop - begin == last - first:
            spans = [(one.start, one.end) for one in read[first:last]]
        else:
            start, end = (read[first].start, read[last - 1].end) if first < last else (at, at)
            spans = list(_shares(texts[begin:stop], start, end))
        words += (Word(one, *span) for one, span in zip(texts[begin:stop], spans, strict=True))
        at = read[last - 1].end if first < last else at
    return tuple(words)


def _shares(texts: Sequence[str], start: float, end: float) -> Iterator[tuple[float, float]]:
    total, done = sum(map(len, texts)), 0
    for text in texts:
        begin, done = done, done + len(text)
        yield start + (end - start) * begin / total, start + (end - start) * done / total


def _joined(pieces: Sequence[str]) -> list[str]:
    """Join pieces that are not spoken to the word before; at the beginning, to the word behind."""
    joined: list[str] = []
    for piece in pieces:
        if joined and not (letters_of(piece) and letters_of(joined[-1])):
            joined[-1] = f"{joined[-1]} {piece}"
        else:
            joined.append(piece)
    return [one for one in joined if letters_of(one)]
