"""Deadlines: acts that are due at a time if no input comes before it.

None is stored: each part of the machine computes its deadlines from its state, so that none outlives its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

NANOSECOND_DIGITS = 9
"""Sums of floats are rounded to nanoseconds, so that 2.5 + 0.4 comes no later than 2.9."""


class Deadline:
    """An act that is due at `at`, on the session clock. It is called with the time at that moment."""

    __slots__ = ("act", "at")  # several are made for each input: a frozen dataclass costs thrice as much

    def __init__(self, at: float, act: Callable[[float], None]) -> None:
        self.at = round(at, NANOSECOND_DIGITS)
        self.act = act

    @property
    def name(self) -> str:
        """The name of its rule in the code."""
        return str(getattr(self.act, "__qualname__", self.act))


def earliest(deadlines: Iterable[Deadline]) -> Deadline | None:
    """Return the deadline that is due first, of equal ones the first in order."""
    first = None
    for deadline in deadlines:
        if first is None or deadline.at < first.at:
            first = deadline
    return first
