"""Preemption: an answer begun on words that are probably all, before the user's turn is over.

An attempt lives as long as the commit would be of its words and would cut no speech. This is checked after all other
decisions of a step, not by each part that changes it, so that no attempt outlives its reason.

Where only a request ends turns (push-to-talk), a caller who still speaks, or whose words are still owed, holds the
button: nearly all attempts on such words would be thrown away. There one begins on settled words in a silence, which
the request may end any time. (LiveKit begins none there before the request.)

A recogniser that judges turns may report an eager end: the attempt on its words begins at once. When it takes the eager
end back, the attempt is dropped at once, and none begins before other words or another judgement come. None begins on
the mere stability of an interim that such a recogniser is still to judge: it would use up the attempts of the eager
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.effects import DropAttempt, Effect, StartAttempt
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.burst import Burst
from vivavoce.agents.turn.user.endpointing import Endpointing
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide
from vivavoce.pipelines.core.words import same_words


@dataclass(frozen=True, slots=True)
class Attempt:
    """An answer that has begun.

    Args:
        text: The words that it answers.
        burst: The newest speech of these words; a newer speech means that the user continues.
    """

    attempt_id: str
    turn_id: str
    text: str = field(repr=False)
    burst: Burst | None


class Preemption:
    """Starts attempts, at most one at a time and a few a turn, and drops those whose words change.

    It starts none while a speech or handoff has the floor or waits for it: a speech changes the history, a handoff the
    agent.

    Args:
        user: Read.
        endpointing: Read.
        out: Receives effects.
    """

    def __init__(
        self, options: OptionsInUse, floor: Floor, user: UserSide, endpointing: Endpointing, out: list[Effect]
    ) -> None:
        self._max_attempts = options.traits.max_attempts
        self._options = options
        self._floor = floor
        self._user = user
        self._endpointing = endpointing
        self._out = out
        self._attempt: Attempt | None = None
        self._count = 0
        self._counted_turn = ""
        self._counted = 0

    def limit(self, max_attempts: int) -> None:
        """Take the limit of another pipeline, and drop the attempt of the one before."""
        self._max_attempts = max_attempts
        if self._attempt is not None:
            self._out.append(DropAttempt(self._attempt.attempt_id))
            self._attempt = None

    def adopt(self, turn: UserTurn) -> str:
        """Return the id of the attempt that answers that turn, which is committed; "" without one."""
        attempt = self._attempt
        if attempt is None or attempt.turn_id != turn.turn_id or not same_words(attempt.text, turn.text):
            return ""
        self._attempt = None
        return attempt.attempt_id

    def update(self) -> bool:
        """Drop an attempt that has lost its reason, and begin one on settled words; return whether either was done."""
        turn = self._user.turn
        if self.drop_stale():
            return True
        if turn is not None and self._are_all(turn) and self._may_start(turn):
            self._start(turn)
            return True
        return False

    def drop_stale(self) -> bool:
        """Drop an attempt that has lost its reason; return whether there was one."""
        attempt = self._attempt
        if attempt is None or self._is_still_right(attempt):
            return False
        self._attempt = None
        self._out.append(DropAttempt(attempt.attempt_id))
        return True

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the time when an interim has been stable for long enough to be answered."""
        turn, burst = self._user.turn, self._user.burst
        if turn is None or not turn.interim or self._options.is_manual or not self._may_start(turn):
            return
        if self._endpointing.waits_for_recogniser(turn):
            return
        is_of_this_speech = burst is None or not burst.is_going_on or turn.interim_since >= burst.started_at
        if is_of_this_speech:
            yield Deadline(turn.interim_since + self._options.interruption.stable_interim, self._on_interim_stable)

    def _are_all(self, turn: UserTurn) -> bool:
        """Return whether the words of that turn are probably all: by the recogniser's judgement, or settled."""
        return turn.is_judged_over is True or not (turn.interim or turn.owes_final)

    def _is_still_right(self, attempt: Attempt) -> bool:
        turn = self._user.turn
        return (
            turn is not None
            and turn.turn_id == attempt.turn_id
            and turn.burst is attempt.burst
            and turn.is_judged_over is not False
            and same_words(turn.text, attempt.text)
            and self._floor.is_unclaimed
        )

    def _may_start(self, turn: UserTurn) -> bool:
        if self._attempt is not None or turn.is_judged_over is False:
            return False
        if self._options.is_manual and self._user.is_speaking:
            return False
        is_worn_out = turn.turn_id == self._counted_turn and self._counted >= self._max_attempts
        return not is_worn_out and self._floor.is_unclaimed and turn.text != ""

    def _on_interim_stable(self, now: float) -> None:
        assert self._user.turn is not None
        self._start(self._user.turn)

    def _start(self, turn: UserTurn) -> None:
        if turn.turn_id != self._counted_turn:
            self._counted_turn, self._counted = turn.turn_id, 0
        self._counted += 1
        self._count += 1
        self._attempt = attempt = Attempt(f"attempt_{self._count}", turn.turn_id, turn.text, turn.burst)
        self._out.append(StartAttempt(attempt.attempt_id, attempt.turn_id, attempt.text))
