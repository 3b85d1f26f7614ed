"""Settling: acts on the deadlines that are due in a step, and ends a deadline that would be due for ever.

A deadline that has been acted upon and is due again at the same instant has changed nothing, or another one has undone
it: the rule behind it is wrong. It is dropped and reported, and asked again only after an input, since that may have
changed the machine; time alone cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vivavoce.agents.turn.deadlines import Deadline, earliest
from vivavoce.agents.turn.effects import DeadlineDropped, Effect

MOST_ACTS = 3
"""The most times that one deadline may act in one step. A rule may settle in two parts, never in more."""
MOST_GRANTS = 1000
"""The most times in one step that something which waits may begin."""


class Settling:
    """Counts the acts of one step.

    Args:
        out: Receives the reports.
    """

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._acts: Counter[tuple[str, float]] = Counter()
        self._dropped: set[tuple[str, float]] = set()
        self._reported: set[tuple[str, float]] = set()

    def begin(self, *, is_input: bool) -> None:
        """Begin a step.

        Args:
            is_input: Whether an input came; a dropped deadline may have an effect then.
        """
        self._acts.clear()
        if is_input:
            self._dropped.clear()

    def next(self, deadlines: Iterable[Deadline]) -> Deadline | None:
        """Return the earliest deadline that is not dropped."""
        if self._dropped:
            deadlines = (deadline for deadline in deadlines if (deadline.name, deadline.at) not in self._dropped)
        return earliest(deadlines)

    def act(self, deadline: Deadline, now: float) -> None:
        """Act on a deadline that is due, or drop it if acting has had no effect."""
        key = deadline.name, deadline.at
        if self._acts[key] >= MOST_ACTS:
            self._drop(key)
            return
        self._acts[key] += 1
        deadline.act(now)

    def may_grant(self, now: float) -> bool:
        """Return whether something that waits may begin now."""
        key = "a speech, a handoff or an attempt that begins and ends at once", now
        self._acts[key] += 1
        if self._acts[key] > MOST_GRANTS:
            self._drop(key)
            return False
        return True

    def _drop(self, key: tuple[str, float]) -> None:
        self._dropped.add(key)
        if key not in self._reported:
            self._reported.add(key)
            self._out.append(DeadlineDropped(*key))
