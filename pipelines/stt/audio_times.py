"""AudioTimes: the times on another clock of the positions in a stream's audio."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from vivavoce.pipelines.stt.recognised import STTWord, earlier

GAP = 0.2
"""Seconds by which audio that comes later than the audio before it has left something out, such as a pause."""
MOST_PARTS = 64
"""Parts without a gap that are known; words of older ones are not expected any more."""


@dataclass(slots=True)
class _Part:
    """Audio without a gap: its first position, and the seconds between a position and its time."""

    begin: float
    offset: float


class AudioTimes:
    """Knows when the audio was heard that a stream counts from 0 on.

    A position counts only the audio that was pushed. Audio that was pushed late in one go, such as kept audio, was
    heard without a gap before the newest of it: so in each part the least offset counts.
    """

    def __init__(self) -> None:
        self._position = 0.0
        self._parts: deque[_Part] = deque(maxlen=MOST_PARTS)

    def push(self, seconds: float, end: float) -> None:
        """Note a piece of audio.

        Args:
            end: The time of its end, as far as it is known: it may have been earlier.
        """
        begin = self._position
        self._position += seconds
        offset = end - self._position
        if not self._parts or offset > self._parts[-1].offset + GAP:
            self._parts.append(_Part(begin, offset))
        elif offset < self._parts[-1].offset:
            self._parts[-1].offset = offset

    def words(self, words: Sequence[STTWord]) -> tuple[STTWord, ...]:
        """Return the words with their times on the other clock."""
        return tuple(moved for word in words for moved in earlier([word], -self._offset(word)))

    def _offset(self, word: STTWord) -> float:
        middle = (word.start + word.end) / 2
        found = (part.offset for part in reversed(self._parts) if part.begin <= middle)
        return next(found, self._parts[0].offset if self._parts else 0.0)
