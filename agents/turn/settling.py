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
"""Times that one deadline may act in one step: a rule may settle in two parts, never in so many."""
MOST_GRANTS = 1000
"""Times that something that waits may begin in one step."""


class Settling:
    """Counts the acts of one step.

    Args:
        out: Reports go here.
    """

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._acts: Counter[tuple[str, float]] = Counter()
        self._dropped: set[tuple[str, float]] = set()
        self._reported: set[tuple[str, float]] = set()

    def begin(self, *, is_input: bool) -> None:
        """A step begins.

        Args:
            is_input: An input came, so that a dropped deadline may be of use now.
        """
        self._acts.clear()
        if is_input:
            self._dropped.clear()

    def next(self, deadlines: Iterable[Deadline]) -> Deadline | None:
        """Return the earliest one that is not dropped."""
        if self._dropped:
            deadlines = (deadline for deadline in deadlines if (deadline.name, deadline.at) not in self._dropped)
        return earliest(deadlines)

    def act(self, deadline: Deadline, now: float) -> None:
        """Act on a deadline that is due, or drop it where acting has led to nothing."""
        key = deadline.name, deadline.at
        if self._acts[key] >= MOST_ACTS:
            self._drop(key)
            return
        self._acts[key] += 1
        deadline.act(now)

    def may_grant(self, now: float) -> bool:
        """Whether something that waits may begin now."""
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
