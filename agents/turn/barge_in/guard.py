"""InterruptionGuard: times at which the caller's voice cannot interrupt. Words said then are kept for the next turn.

* **Echo warm-up.** A client's echo canceller needs some seconds of the agent's voice to converge; until then the agent
  may hear itself. The seconds count from the first frame of the session; only speech that sounds is shielded, so that
  an answer under way is still taken back when the caller goes on. (LiveKit's `aec_warmup_duration`, 3 s by default,
  throws the caller's audio away meanwhile.)
* **An owed answer**, to a turn that a limit cut (`limits`): the caller's voice neither holds nor cuts it before it
  is heard, and speech that began before that does not cut it afterwards; else who talks on is never answered. Without a
  VAD, speech begins when its first interim comes; of a final without one the onset is unknown, and it is taken as said
  then.
* **A kept answer**, to a turn that was resumed again and again: who asks "hello?" every few seconds would have a slow
  model begin anew each time. After two resumes that came `LONG_PAUSE` or more after the caller had ended, the third one
  takes nothing back: the caller's voice holds the answer while it is heard, and the words are the next turn, which
  begins when the answer has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.floor.caller_floor import CallerFloor
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.user.turn import UserTurn, is_long_pause
from vivavoce.agents.turn.user.user_side import UserSide

LATE_MERGES = 2
"""The most merges of a turn after a pause of `LONG_PAUSE`."""


class InterruptionGuard:
    """Knows which speech is shielded, and which words take no floor. Only this class hushes words of the open turn.

    Args:
        echo_warm_up: Seconds; 0 for none.
    """

    def __init__(self, floor: Floor, user: UserSide, caller: CallerFloor, echo_warm_up: float) -> None:
        self._floor = floor
        self._caller = caller
        self._user = user
        self._echo_warm_up = echo_warm_up
        self._sounds_since: float | None = None
        """The time when the first speech of all began to sound."""
        self._is_warming_up = False
        self.warm_at = float("-inf")
        """When the warm-up ends or ended."""

    def agent_sounds(self, speech: Speech, at: float) -> None:
        """Note that a speech begins to sound; the first speech of all begins the warm-up.

        Earlier words of a turn that spares the speech do not cut it.
        """
        if self._sounds_since is None:
            self._sounds_since = at
            if self._echo_warm_up:
                self.warm_at, self._is_warming_up = at + self._echo_warm_up, True
        turn = self._user.turn
        if turn is not None and self._caller.spares(turn, speech):
            turn.hush()

    def floor_given(self, speech: Speech) -> None:
        """Note that a speech got the floor. Words deferred by the speech before it are not deferred again.

        An owed answer is not cut by words from before it is heard.
        """
        if self._user.turn is not None and not speech.is_owed:
            self._user.turn.unhush()

    def final_came(self, turn: UserTurn) -> None:
        """Note that the turn got a final; its words may be kept from taking the floor."""
        active = self._floor.active
        if self.covers(turn) or (active is not None and self._caller.spares(turn, active)):
            turn.hush()

    def defer(self, turn: UserTurn) -> None:
        """Let the turn's newest words wait, as its earlier words do, for the end of a speech."""
        turn.hush()

    def take_warm_up(self, seconds: float) -> None:
        """Take the warm-up of another agent, which now has the conversation; it too counts from the first sound of
        all."""
        self._echo_warm_up = seconds
        if self._sounds_since is None:
            return
        warm_at = self._sounds_since + seconds
        if self._is_warming_up or warm_at > self._floor.now:
            self.warm_at, self._is_warming_up = warm_at, True

    def shields(self, speech: Speech) -> bool:
        """Return whether no voice may hold or cut that speech now."""
        if self._is_over_caller(speech) and not (speech.was_audible or speech.is_kept):
            return True
        return self._is_warming_up and speech.is_playing and not speech.is_paused

    def keep_answer(self, since: float) -> None:
        """Keep the answer if its turn merged too often: the caller has continued before the answer was heard."""
        answer = self._floor.unheard_answer
        if answer is None:
            return
        turn = answer.answers
        assert turn is not None
        if turn.late_merges >= LATE_MERGES and is_long_pause(turn.ended_at, since):
            answer.keep()

    def overrules(self, speech: Speech, since: float) -> bool:
        """Return whether a sound since then has no effect on that speech, however long it lasts."""
        return self._is_over_caller(speech) and (speech.audible_since is None or since < speech.audible_since)

    def _is_over_caller(self, speech: Speech) -> bool:
        turn = self._user.turn
        is_of_turn = speech.speaks_over and turn is not None and speech.asked_at >= turn.began_at
        return speech.is_owed or is_of_turn

    def covers(self, turn: UserTurn) -> bool:
        """Return whether the newest words of that turn take no floor from the speech that has it."""
        active, burst = self._floor.active, turn.burst
        if active is None:
            return False
        if active.is_owed:
            return self.overrules(active, turn.utterance_at if burst is None else burst.started_at)
        if self._is_warming_up:
            return active.is_playing and not active.is_paused
        ended_at = turn.word_at if burst is None else burst.ended_at
        return active.is_playing and ended_at is not None and ended_at <= self.warm_at

    def deadlines(self) -> Iterator[Deadline]:
        """Yield when the warm-up is over."""
        if self._is_warming_up:
            yield Deadline(self.warm_at, self._on_warm)

    def end(self) -> None:
        """Note that the session closes: no speech can be interrupted any more."""
        self._is_warming_up = False
        self._echo_warm_up = 0.0

    def _on_warm(self, now: float) -> None:
        self._is_warming_up = False
        turn = self._user.turn
        if turn is not None and not turn.is_speech_going_on:  # words held off until now wait for the end of speech
            turn.hush()
