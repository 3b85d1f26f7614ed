"""Moves: counts the moves of one cause, so that a graph does not move for ever."""

from __future__ import annotations

MAX_MOVES = 100
"""The most moves that one cause may lead to, its consequences included."""
WAIT = 0.05
"""Seconds without a move after which no cause is a consequence of the moves before."""


class Moves:
    """Counts the moves of the present cause, with those of the causes of which it is a consequence."""

    def __init__(self) -> None:
        self._count = 0
        self._at = float("-inf")
        """The time of the last move, made or refused."""

    def begin_cause(self, now: float, *, is_own: bool) -> None:
        """Begin with another cause.

        Args:
            is_own: Whether it may be a consequence of the moves before.
        """
        if not is_own or now - self._at >= WAIT:
            self._count = 0

    def take(self, now: float) -> bool:
        """Count a move; return whether it may be made."""
        self._at = now
        if self._count == MAX_MOVES:
            return False
        self._count += 1
        return True
