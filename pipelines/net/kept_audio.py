"""KeptAudio: the audio since the last settled word, so that the next connection hears what the last one did not settle.

Positions are seconds of the stream: all audio that was pushed, from its beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

A = TypeVar("A")

OVERLAP = 0.5
"""Seconds before the last settled word that are kept too: a recogniser needs a run-up. Their words come twice, and are
known by their times."""


@dataclass(frozen=True, slots=True)
class Piece(Generic[A]):
    """Audio, or a mark between two pieces of it, such as the end of an utterance, which takes no time."""

    item: A
    start: float
    end: float


class KeptAudio(Generic[A]):
    """The newest audio, up to `seconds` of it.

    Args:
        on_drop: Called for each piece of audio that is forgotten because there was more.
        overlap: Seconds of settled audio that are kept.
    """

    def __init__(self, seconds: float, on_drop: Callable[[], None] | None = None, *, overlap: float = OVERLAP) -> None:
        self._limit = seconds
        self._on_drop = on_drop
        self._overlap = overlap
        self._pieces: deque[Piece[A]] = deque()
        self.end = 0.0
        """The position behind the newest audio."""
        self.settled = 0.0
        """The position up to which all words are known."""

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def start(self) -> float:
        """The position of the oldest audio that is kept."""
        return self._pieces[0].start if self._pieces else self.end

    def push(self, item: A, seconds: float) -> Piece[A]:
        """Keep a piece of audio, or, with 0 seconds, a mark; return it with its position."""
        piece = Piece(item, self.end, self.end + seconds)
        self._pieces.append(piece)
        self.end = piece.end
        while self.end - self._pieces[0].end > self._limit:
            self._drop()
        return piece

    def settle(self, until: float) -> None:
        """Note that all words before this position are known; a mark up to there is answered."""
        self.settled = max(self.settled, min(until, self.end))
        while self._pieces and self._pieces[0].end <= self.settled - self._overlap:
            self._pieces.popleft()
        if any(piece.start == piece.end <= self.settled for piece in self._pieces):
            kept = [piece for piece in self._pieces if piece.start < piece.end or piece.end > self.settled]
            self._pieces = deque(kept)

    def pieces(self) -> list[Piece[A]]:
        """Return what is kept, oldest first; it stays kept."""
        return list(self._pieces)

    def is_repeated(self, start: float, end: float) -> bool:
        """Whether a word was settled before, judged by its middle: two hearings of it differ by less than its half."""
        return (start + end) / 2 <= self.settled

    def clear(self) -> None:
        """Forget all audio: its words are not needed."""
        self._pieces.clear()
        self.settled = self.end

    def _drop(self) -> None:
        piece = self._pieces.popleft()
        if piece.end > max(self.settled, piece.start) and self._on_drop is not None:
            self._on_drop()
