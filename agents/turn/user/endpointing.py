"""Endpointing: the rule by which a pause ends the caller's turn.

The wait counts from the true end of speech; the wait for a final, from at most `REPORT_LAG` before the report of it.
Its length depends on the facts that are known of the turn: whether a final is still owed, and the verdict of the turn
detector. Without a verdict, or with "complete", it is the learned delay.

A recogniser that judges the ends of turns takes the place of the detector and of these waits, from the first word of
the turn that it shows. `max_delay` limits the wait for its judgement. The waits hold as ever for words of a recogniser
that was lost or replaced, since it does not judge them any more.
"""

from __future__ import annotations

from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.learned_delay import LearnedDelay
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide


class Endpointing:
    """Computes when a turn is over, by the options in use.

    Args:
        user: Read.
    """

    def __init__(self, options: OptionsInUse, user: UserSide) -> None:
        self._options = options
        self._user = user
        self.learned = LearnedDelay(options.endpointing)
        """The delay that ends a turn which the detector judged complete, or did not judge."""

    def ends_at(self, turn: UserTurn) -> float:
        """Return when the turn is over if nothing else happens. Call it when the user is silent or a request has ended
        the turn."""
        if turn.over is not None:
            return turn.over.at if turn.has_words else turn.over.at + self._options.endpointing.transcript_timeout
        since, burst = turn.silence_since, turn.burst
        if turn.owes_final and burst is not None and not burst.is_going_on:
            since = max(since, burst.settles_from)
        return since + self.delay(turn)

    def waits_for_recogniser(self, turn: UserTurn) -> bool:
        """Return whether the recogniser will judge the end of that turn."""
        return self._options.traits.recogniser_decides and self._user.is_judged(turn)

    def delay(self, turn: UserTurn) -> float:
        """Return the seconds of silence that end the turn, counted from the beginning of the present pause."""
        options, endpointing = self._options, self._options.endpointing
        if options.traits.remote_decides or self.waits_for_recogniser(turn):
            return max(endpointing.max_delay, endpointing.transcript_timeout)
        if turn.owes_final:
            return endpointing.transcript_timeout
        if turn.is_complete is False:
            return endpointing.max_delay
        if turn.is_complete is None and options.traits.detector_timeout is not None:
            return max(self.learned.min_delay, options.traits.detector_timeout)
        return self.learned.min_delay
