"""Moments: the times at which neither side speaks, for all parts that wait for such a time.

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
        """Whether both sides are silent: the agent neither speaks, works nor hands off, and the user is not heard."""
        return not self._user.is_active and self._floor.is_empty

    @property
    def is_between_turns(self) -> bool:
        """Whether no turn is open and no speech is between its request and its end; speech behind a task does not
        count."""
        return self._user.turn is None and not self._floor.has_speech

    @property
    def silent_since(self) -> float:
        """The time of the last event: of the user's last message, or of the end of the agent's last speech."""
        return max(self._user.silence.began_at, self._floor.last_ended_at)
