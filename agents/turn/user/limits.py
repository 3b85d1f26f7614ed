"""TurnLimits: ends a user turn of too many words or seconds, though the caller talks on.

Its words are answered; the answer is owed (`guard`): the caller's voice does not take it back. What is said after the
limit is a new turn, answered after that. A turn that was committed and went on counts from its first part. (LiveKit
counts over all turns until the agent speaks, and leaves the answer to a hook.)

Seconds without words end nothing: when they are over, the recogniser is asked for its words. A model that hears the
caller itself needs none: the seconds commit once in a burst, whose rest is committed when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.effects import Effect, SettleAudio
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide
from vivavoce.pipelines.core.words import count_words


class TurnLimits:
    """Ends the open turn at a limit."""

    def __init__(self, options: OptionsInUse, user: UserSide, out: list[Effect]) -> None:
        self._options = options
        self._user = user
        self._out = out

    def deadlines(self, turn: UserTurn) -> Iterator[Deadline]:
        """Yield the time when the open turn has lasted for too long."""
        options = self._options.endpointing
        words, seconds = options.max_turn_words, options.max_turn_duration
        if words is not None and count_words(turn.text) > words:
            yield Deadline(turn.word_at, self._on_words)
        is_rest = self._options.model_hears_turns and turn.burst is not None and turn.burst.onset is None
        if seconds is not None and not is_rest:
            yield Deadline(turn.lasts_since + seconds, self._on_duration)

    def _on_words(self, now: float) -> None:
        self._reach("max_turn_words", now)

    def _on_duration(self, now: float) -> None:
        self._reach("max_turn_duration", now)

    def _reach(self, limit: Literal["max_turn_words", "max_turn_duration"], now: float) -> None:
        turn = self._user.turn
        assert turn is not None
        if self._options.model_hears_turns and turn.burst is not None:
            turn.hear(now)
        turn.end(now, limit)
        if not turn.has_words:
            self._out.append(SettleAudio())
