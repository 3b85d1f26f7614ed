"""HearingOut: waits for the last words of a caller whose session closes, while the recogniser still owes them.

The words are kept, and not answered. It waits for words that interims have shown, those of a turn committed as an
interim included, and for words of speech that has just ended; for as long as for the final of any turn.
"""

from __future__ import annotations

from vivavoce.agents.turn.effects import Effect, HeardOut, SettleAudio
from vivavoce.agents.turn.exchange.commit import TurnCommit
from vivavoce.agents.turn.inputs import UserFinal, UserInterim
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.user_side import UserSide


class HearingOut:
    """Knows until when to wait for the last words."""

    def __init__(self, options: OptionsInUse, user: UserSide, commit: TurnCommit, out: list[Effect]) -> None:
        self._options = options
        self._user = user
        self._turn_commit = commit
        self._out = out
        self._is_asked = False
        self.until: float | None = None
        """The end of the wait; None while there is no wait."""

    @property
    def _timeout(self) -> float:
        return self._options.endpointing.transcript_timeout

    def begin(self, now: float) -> None:
        """Have the recogniser settle its audio, and wait if it owes words. Only the first call counts."""
        self._is_asked = True
        if self.until is not None or not self._owes_words(now):
            return
        burst = self._user.burst
        if burst is not None and burst.is_going_on:
            burst.end(now if burst.voiced_until is None else burst.voiced_until, now)
        self.until = now + self._timeout if self._turn_owes_words(now) else self._turn_commit.owed_until
        self._out.append(SettleAudio())

    def take(self, event: UserInterim | UserFinal, text: str, now: float) -> bool:
        """Take a transcript; return whether no more words are owed."""
        if isinstance(event, UserFinal):
            is_past, held = event.is_past, event.held
            news = self._turn_commit.settle_late(text, now, event.item_id, is_past=is_past, held=held)
            turn = self._user.turn  # opened again, perhaps
            if turn is not None and news is not None and event.is_past:
                turn.add_past_final(news)
            elif turn is not None and news is not None:
                turn.add_final(news, now, event.item_id)
        elif (turn := self._user.turn) is not None and not self._turn_commit.is_named(event.item_id):
            turn.add_interim(text, now, event.item_id)
        return not self._owes_words(now)

    def end(self) -> None:
        """End the wait, and report the end if `begin` was called."""
        self.until = None
        if self._is_asked:
            self._is_asked = False
            self._out.append(HeardOut())

    def _owes_words(self, now: float) -> bool:
        return self._turn_commit.owed_until > now or self._turn_owes_words(now)

    def _turn_owes_words(self, now: float) -> bool:
        turn = self._user.turn
        if self._user.hears_words_since is None:  # the recogniser is lost
            return False
        if turn is None or not (turn.owes_final or (turn.is_heard and not turn.new_text)):
            return False
        burst = turn.burst
        ended_at = None if burst is None else burst.voiced_until if burst.is_going_on else burst.ended_at
        is_recent = ended_at is not None and now - ended_at < self._timeout
        return bool(turn.interim) or is_recent
