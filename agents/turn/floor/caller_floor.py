"""CallerFloor: the caller's claim to the floor, from a turn's onset to its commit or drop.

Speech that was asked for meanwhile waits in the queue. Where a request ends turns (push-to-talk), or a model's server
does, a turn may stay open in silence: there the claim lasts while speech is heard. Sound without words has the floor
for at most `max_pause`, however many bursts it comes in.
"""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide


class CallerFloor:
    """Knows whether the caller has the floor, and which speech may begin or continue all the same."""

    def __init__(self, options: OptionsInUse, floor: Floor, user: UserSide) -> None:
        self._options = options
        self._floor = floor
        self._user = user
        self._noise: UserTurn | None = None

    @property
    def is_held(self) -> bool:
        """Whether the caller has the floor now."""
        if self._user.turn is None or self.is_noise:
            return False
        if self._options.traits.remote_decides or self._options.is_manual:
            return self._user.has_voice
        return True

    @property
    def is_noise(self) -> bool:
        """Whether the open turn is sound that has lasted too long without a word."""
        turn = self._user.turn
        return turn is not None and turn is self._noise and not turn.has_words

    def next_speech(self) -> Speech | None:
        """Return the speech that gets the free floor: the next one, or one that may speak over the caller."""
        queue = self._floor.queue
        if not queue or not self.is_held:
            return queue[0] if queue else None
        turn = self._user.turn
        assert turn is not None
        if not queue[0].interruptible and not self.is_asked_since(turn, queue[0]):
            return queue[0]
        over = (s for s in queue if s.is_owed or (s.speaks_over and self.is_asked_since(turn, s)))
        return next(over, None)

    def is_asked_since(self, turn: UserTurn, speech: Speech) -> bool:
        """Return whether that speech was asked for after the onset of that turn."""
        began_at = turn.utterance_at if turn is self._noise else turn.began_at
        return speech.kind != "turn" and speech.asked_at >= began_at

    def spares(self, turn: UserTurn | None, speech: Speech) -> bool:
        """Return whether that turn must not cut that speech: it was asked for after the onset, and the caller has not
        spoken since it sounds; or it is withheld, so that the caller cannot mean it."""
        if self._floor.is_withheld and speech.asked is not None and not speech.has_begun:
            return True
        if turn is None or not self.is_asked_since(turn, speech) or speech.hook_of:
            return False
        burst = None if turn is self._noise else turn.burst
        words_since = turn.utterance_at if burst is None else burst.started_at
        return speech.audible_since is None or words_since < speech.audible_since

    def turn_committed(self, turn: UserTurn) -> None:
        """Order the speech that was asked for during a committed turn, whose answer is queued.

        Speech of a wake-up, and of a tool call that has settled, is out of date. A reply follows the answer.
        """
        for speech in self._floor.waiting:
            asked = speech.asked
            if asked is None or speech.has_used_tools or not self.is_asked_since(turn, speech):
                continue
            if asked.by_wake_up or speech.phase == "lapsed":
                self._floor.stop(speech, "discarded")
            elif speech.kind == "reply" and not (speech.by_hook or speech.hook_of or asked.by_body):
                self._floor.move_back(speech)

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the time when sound without words has had the floor for so long that it counts as noise."""
        turn, limit = self._user.turn, self._options.interruption.max_pause
        if turn is not None and limit is not None and not turn.has_words and self._floor.waiting and self.is_held:
            burst = turn.burst
            wait = limit if burst is None else burst.noise_at(limit) - burst.started_at
            yield Deadline(turn.began_at + wait, self._on_noise)

    def pass_over(self) -> None:
        """Count the open turn, which has no words, as noise until a word of it comes."""
        self._noise = self._user.turn
        if self._user.burst is not None:
            self._user.burst.ignore()

    def _on_noise(self, now: float) -> None:
        self.pass_over()
