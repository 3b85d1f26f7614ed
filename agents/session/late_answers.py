"""LateAnswers: what tools of an interrupted speech came to is answered once nobody speaks."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.tools.executor import ToolBatch


class LateAnswers:
    """Keeps the results that no model was sent.

    Args:
        answer: Has the model answer what is in the history, by a reply that belongs to that turn.
    """

    def __init__(self, answer: Callable[[str], None]) -> None:
        self._answer = answer
        self._batches: list[ToolBatch] = []

    @property
    def are_owed(self) -> bool:
        """Whether there may be anything to answer."""
        return bool(self._batches)

    def add(self, batch: ToolBatch) -> None:
        """All calls of that batch are settled, and its speech will not tell of them."""
        self._batches.append(batch)

    def give(self, *, is_closing: bool, is_silent: bool) -> None:
        """Have them answered if nobody speaks, unless the answer to the user's next words has them by then."""
        if is_closing:
            self._batches.clear()
        if not is_silent:
            return
        wanted = [batch for batch in self._batches if not batch.is_carried]
        self._batches.clear()
        if wanted:
            self._answer(wanted[0].turn_id)
