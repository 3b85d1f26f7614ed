"""WordTimer: turns espeak's word events and its audio into words of the input with their times. Pure."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE
from vivavoce.pipelines.tts.base import Word

WORD_EVENT = 1
SILENCE = 100
"""Samples of this amplitude or less are silence (-50 dB)."""
STRIDE = 8
"""Samples between two checks in the search for silence; half a period of anything audible is longer."""


class WordTimer:
    """Times the words of one text, from espeak's events.

    Words are the input's pieces between white space, with punctuation. espeak may send several events for one of them
    ("$25") and none for another ("-", or the "a" of "of a"): the first event starts a word, and words without events
    share its time, by their length; mere punctuation joins the word before it (at the beginning: the word after it). A
    word ends with its last audible sample before the next one starts.

    Args:
        text: The spoken text.
        sample_rate: Hz of the audio.
        offset: Samples of the stream before this text's audio.
    """

    def __init__(self, text: str, sample_rate: int, *, offset: int = 0) -> None:
        self._text = text
        self._rate = sample_rate
        self._offset = offset
        self._spans = [match.span() for match in re.finditer(r"\S+", text)]
        self._starts = [start for start, _ in self._spans]
        self._next = 0
        """Index of the first word not begun."""
        self._first = 0
        """Index of the first piece of the word being spoken."""
        self._begin = 0
        self._audio = bytearray()
        """The samples since `_begin`."""

    def feed(self, pcm: bytes, events: Iterable[tuple[int, int]]) -> tuple[Word, ...]:
        """Take the next audio and its word events, `(position, sample)`; return the words that have ended.

        Args:
            pcm: 16-bit mono.
            events: Characters before the word plus one, and samples before it, both from the beginning of the text.
        """
        self._audio += pcm
        words: list[Word] = []
        for position, sample in events:
            index = bisect_right(self._starts, position - 1) - 1
            if index < self._next:
                continue
            if self._next:
                words += self._words(index, sample)
                self._first = index
            else:
                self._drop(sample)
            self._next = index + 1
        return tuple(words)

    def finish(self) -> tuple[Word, ...]:
        """Return the last word; the audio is over."""
        if not self._spans:
            return ()
        return tuple(self._words(len(self._spans), self._begin + len(self._audio) // BYTES_PER_SAMPLE))

    def _words(self, until: int, sample: int) -> Iterator[Word]:
        start = self._offset + self._begin
        samples = _audible(self._audio[: BYTES_PER_SAMPLE * (sample - self._begin)])
        self._drop(sample)
        texts = self._texts(self._spans[self._first : until])
        total = sum(map(len, texts))
        done = 0
        for text in texts:
            begin, done = done, done + len(text)
            yield Word(
                text, (start + samples * begin / total) / self._rate, (start + samples * done / total) / self._rate
            )

    def _texts(self, spans: list[tuple[int, int]]) -> list[str]:
        """Join pieces that are not spoken to their neighbours."""
        joined: list[tuple[int, int]] = []
        for start, end in spans:
            is_said = any(map(str.isalnum, self._text[start:end]))
            if joined and not (is_said and any(map(str.isalnum, self._text[slice(*joined[-1])]))):
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return [self._text[start:end] for start, end in joined]

    def _drop(self, sample: int) -> None:
        del self._audio[: BYTES_PER_SAMPLE * (sample - self._begin)]
        self._begin = sample


def _audible(pcm: bytearray) -> int:
    """Return the samples up to the last audible one, within a third of a millisecond; all of them if none is."""
    samples = array("h", bytes(pcm))
    for index in range(len(samples) - 1, -1, -STRIDE):
        if abs(samples[index]) > SILENCE:
            return index + 1
    return len(samples)


MAX_PIECE = 400
_BREAKS = (re.compile(r"[.!?…]\S*\s+"), re.compile(r"[,;:]\s+"), re.compile(r"\s+"))


def pieces(text: str) -> list[str]:
    """Cut a long text so that each piece is at most `MAX_PIECE` characters, where speech pauses if possible."""
    cut = []
    while len(text) > MAX_PIECE:
        ends = (max((match.end() for match in pattern.finditer(text, 0, MAX_PIECE)), default=0) for pattern in _BREAKS)
        end = next((end for end in ends if end), MAX_PIECE)
        cut.append(text[:end])
        text = text[end:]
    cut.append(text)
    return [piece for piece in cut if piece.strip()]
