"""CallerHold: with whom the caller talks: with the agent, on hold with none, or with a person."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.states import HoldState


class CallerHold:
    """While the caller does not talk with the agent, nothing that they say, type or show is a turn.

    Writer: `Hold` of the telephony.
    """

    def __init__(self) -> None:
        self.state: HoldState = "talking"
        self._on_change: list[Callable[[], None]] = []

    @property
    def is_deaf(self) -> bool:
        """Whether the agent hears and reads nothing of the caller."""
        return self.state != "talking"

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each change."""
        self._on_change.append(callback)

    def change(self, state: HoldState) -> None:
        """Go to that state."""
        self.state = state
        for callback in self._on_change:
            callback()
