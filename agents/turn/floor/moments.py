"""Moments: the times at which neither side speaks. Whoever waits for such a time asks here.

Both sides may speak at once, so that the speech of one says nothing about the other.
"""

from __future__ import annotations

from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.user.user_side import UserSide


class Moments:
    """Compares the two sides."""

    def __init__(self, floor: Floor, user: UserSide) -> None:
        self._floor = floor
        self._user = user

    @property
    def is_silent(self) -> bool:
        """Whether neither side does anything: the agent speaks, works and hands off as little as the user is heard."""
        return not self._user.is_active and self._floor.is_empty

    @property
    def is_between_turns(self) -> bool:
        """Whether no speech is anywhere between its request and its end, but behind a task, and no turn is open."""
        return self._user.turn is None and not self._floor.has_speech

    @property
    def silent_since(self) -> float:
        """When the last event of either side was: the user's last message, or the end of the agent's last speech."""
        return max(self._user.silence.began_at, self._floor.last_ended_at)
