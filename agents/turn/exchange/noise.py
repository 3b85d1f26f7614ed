"""Noise: decides when sound without words counts as noise, which holds nothing.

Where the recogniser gives interims and is connected, words are the proof of speech:

* A turn with words is over `no_words` after its last new word, at least `max_delay`, though sound goes on, such as a
  television's. A sound that began just now is given `GRACE` for its first word. With a recogniser that is slow, it is
  over `max_pause` after that word.
* A sound that has lasted `max_pause` without a word is noise; a turn of nothing else is dropped.

Where the recogniser gives no interims, words come when an utterance is over, and a realtime model's come even later: a
voice is believed for 30 s from its onset, and from each new word. Then the turn of a model that hears the caller is
committed, for it may have heard words, and the rest is noise. A sound that began over the agent's voice is committed
when it ends: it may be that voice.

Noise holds neither floor, answer nor agent, and silence counts while it lasts: until a word of it comes.
"""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.turn.barge_in.interruption import Interruption
from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.exchange.commit import TurnCommit
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.burst import LONGEST_VOICE, Burst
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide

GRACE = 1.0
"""Seconds that a new sound has for its first word when the turn's last word is long past."""


class Noise:
    """Decides when a sound is noise."""

    def __init__(
        self, options: OptionsInUse, floor: Floor, user: UserSide, interruption: Interruption, commit: TurnCommit
    ) -> None:
        self._options = options
        self._floor = floor
        self._user = user
        self._interruption = interruption
        self._turn_commit = commit

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the time when the present sound becomes noise if no word comes."""
        options = self._options
        burst, turn, since = self._user.burst, self._user.turn, self._user.hears_words_since
        if burst is None or not burst.is_going_on or since is None or options.traits.remote_decides:
            return
        max_pause = options.interruption.max_pause
        if max_pause is not None and not (burst.has_words or burst.is_noise):
            yield Deadline(max(burst.noise_at(max_pause), since + max_pause), self._on_no_word)
        if turn is not None and turn.over is None and turn.has_words and not options.is_manual:
            over_at = self._over_at(turn, burst, since)
            if over_at is not None:
                yield Deadline(over_at, self._on_no_new_word)

    def _over_at(self, turn: UserTurn, burst: Burst, since: float) -> float | None:
        """Return when that turn is over if no word comes, though its sound goes on; None if only the end of the sound
        ends it."""
        max_pause, endpointing = self._options.interruption.max_pause, self._options.endpointing
        wait, word_at = max(endpointing.no_words, endpointing.max_delay), max(turn.word_at, since)
        if max_pause is None and (self._user.pace.is_slow or not burst.emits_interims):
            return None
        if not burst.emits_interims:
            # A model that hears the caller itself has got the sound before this one, whose words are unknown.
            heard_at = max(word_at, burst.started_at) if turn.is_heard else word_at
            return heard_at + max(endpointing.max_delay, max_pause or 0.0, LONGEST_VOICE)
        if self._user.pace.is_slow:
            wait = max(wait, max_pause or 0.0)
        return min(max(word_at + wait, burst.started_at + GRACE), word_at + 2 * wait)

    def _on_no_word(self, now: float) -> None:
        burst, turn = self._user.burst, self._user.turn
        assert burst is not None
        burst.turn_to_noise(now)
        if turn is not None and not turn.has_words and not self._options.is_manual:
            if not self._options.traits.hears_audio:
                self._turn_commit.drop("noise")
            elif self._floor.active is None and burst.started_at >= self._floor.last_ended_at:
                turn.hear(now)
                turn.end(now, "no_words")
        self._interruption.let_go_on()

    def _on_no_new_word(self, now: float) -> None:
        burst, turn = self._user.burst, self._user.turn
        assert burst is not None
        assert turn is not None
        burst.turn_to_noise(now)
        turn.end(now, "no_words")
