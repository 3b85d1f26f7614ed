"""TurnCommit: answers a user turn that is over, keeps it unanswered, or lets it wait for a protected speech.

Also the effect of a late final on a turn that was committed as an interim.
"""

from __future__ import annotations

from typing import Literal

from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.barge_in.interruption import Interruption
from vivavoce.agents.turn.effects import (
    AddBackchannel,
    AmendUserTurn,
    CommitUserTurn,
    DropUserTurn,
    Effect,
    EndedBy,
    UserTurnLimitReached,
)
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.preemption import Preemption
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.endpointing import Endpointing
from vivavoce.agents.turn.user.late_finals import CommittedTurn, Guess, LateFinals
from vivavoce.agents.turn.user.turn import ClosedTurn, UserTurn
from vivavoce.agents.turn.user.user_side import UserSide
from vivavoce.pipelines.core.words import count_words


class TurnCommit:
    """Ends the user's turn. It numbers the answers, and keeps the last commit while its final may still come."""

    def __init__(
        self,
        options: OptionsInUse,
        floor: Floor,
        user: UserSide,
        interruption: Interruption,
        guard: InterruptionGuard,
        endpointing: Endpointing,
        preemption: Preemption | None,
        out: list[Effect],
    ) -> None:
        self._options = options
        self._guard = guard
        self._endpointing = endpointing
        self._preemption = preemption
        self._floor = floor
        self._user = user
        self._interruption = interruption
        self._out = out
        self._answers = 0
        self._finals = LateFinals()
        self.last_turn = ("", "")
        """The last turn that has a message, and its words as far as they are known."""
        self.amended: tuple[CommittedTurn, float] | None = None
        """The turn whose words a late final has changed since its answer was heard, with the time; None once it is
        answered."""

    def take_pipeline(self, preemption: Preemption | None) -> None:
        """Note that another pipeline answers from now on."""
        self._preemption = preemption

    def others_listen(self, now: float) -> None:
        """Note that other components hear the caller from now on."""
        self._finals.others_listen(now, self._options.endpointing.transcript_timeout)

    def take_recogniser(self, now: float) -> None:
        """Note that another recogniser of the pipeline hears from now on. Past finals of the one before settle its
        words."""
        self._finals.leave(now)
        if self._user.turn is not None:
            self._user.turn.leave_words(now)

    @property
    def owed_until(self) -> float:
        """The time until which a recogniser may still settle committed words."""
        return self._finals.owed_until

    def is_deferred(self, turn: UserTurn) -> bool:
        """Return whether the words of that turn must wait for a speech that they may not cut."""
        active = self._floor.active
        if active is None or not turn.has_words or self._interruption.caller.spares(turn, active):
            return False
        is_by_voice = not turn.is_over_by_word
        if self._interruption.may_cut(active):
            return is_by_voice and (self._is_hushed(turn) or (active.is_kept and self._guard.covers(turn)))
        return is_by_voice or not active.interruptible

    def _is_hushed(self, turn: UserTurn) -> bool:
        if len(turn.segments) > turn.hushed or turn.typed:
            return False
        is_audio = self._options.model_hears_turns and turn.is_heard and not turn.new_text
        return self._guard.covers(turn) if turn.interim or is_audio else turn.hushed > 0

    def finish(self, now: float, ended_by: EndedBy | None = None) -> None:
        """End the open turn, which is over: answer it, keep it as a backchannel, or drop it.

        Args:
            ended_by: The reason; None if the turn itself has it, such as the present pause.
        """
        turn = self._user.turn
        if turn is None or self.is_deferred(turn):
            return
        if not turn.has_words:
            self.drop("transcript_missing")
            self._interruption.let_go_on()
            return
        is_unknown = turn.is_heard and not turn.new_text
        may_be_sign = (
            (turn.over is None or turn.over.by in ("no_words", "recogniser"))
            and not (turn.is_merged or is_unknown)
            and self._floor.was_heard
        )
        if may_be_sign and self._interruption.is_only_sign(turn, now):
            if turn.hushed and turn.loud_text and not turn.interim:  # it goes with words that wait for an answer
                self._guard.defer(turn)
                self._interruption.let_go_on()
                return
            self._out.append(AddBackchannel(turn.turn_id, turn.new_text))
            self._await_final(turn, "", now)
            self.last_turn = (turn.turn_id, turn.new_text)
            self._user.close_turn(now)
            self._interruption.let_go_on()
            return
        self.commit(turn, now, ended_by)

    def commit(
        self,
        turn: UserTurn,
        now: float,
        ended_by: EndedBy | None = None,
        *,
        remote_reply_id: str = "",
        item_id: str = "",
    ) -> None:
        """Take the floor for the open turn and have it answered.

        Args:
            item_id: The name of its audio at the model's server, if the server ended the turn.
        """
        self._user.act(now)
        ended_by, delay = self._end_of(turn, ended_by)
        self._endpointing.learned.turn_ended(
            turn.silence_since if ended_by == "pause" and turn.burst is not None else None
        )
        if ended_by == "max_turn_words" or ended_by == "max_turn_duration":
            words, seconds = count_words(turn.text), round(now - turn.began_at, 6)
            self._out.append(UserTurnLimitReached(turn.turn_id, ended_by, words, seconds))
        self._interruption.take_floor()
        closed = turn.close(now)
        speech_id = self._ask(closed, ended_by)
        is_remote, settles_audio = bool(remote_reply_id) or turn.is_heard, turn.settles_audio
        if self._options.model_hears_turns:  # silence alone is no item of its conversation
            settles_audio = settles_audio and turn.has_open_audio
        self._out.append(
            CommitUserTurn(
                turn_id=closed.turn_id,
                speech_id=speech_id,
                text=closed.text,
                timing=turn.timing(now, ended_by, delay),
                speech_started_at=closed.onset,
                merged=turn.is_merged,
                amends=turn.past.amends,
                is_heard=(is_remote or settles_audio) and not turn.typed,
                settles_audio=settles_audio and not (remote_reply_id or self._is_ended_by_server(turn)),
                remote_reply_id=remote_reply_id,
                attempt_id=self._preemption.adopt(turn) if self._preemption is not None else "",
            )
        )
        self.last_turn = (closed.turn_id, closed.text)
        self._interruption.caller.turn_committed(turn)
        self._interruption.let_go_on()
        guess = self._await_final(turn, speech_id, now, is_remote=is_remote, item_id=item_id)
        if self._options.model_hears_turns and settles_audio:
            self._finals.await_name(guess)
        self._user.close_turn(now)
        self.amended = None  # the request has it

    def _end_of(self, turn: UserTurn, ended_by: EndedBy | None) -> tuple[EndedBy, float | None]:
        """Return the reason for the end of that turn, with the seconds of silence if it was a pause."""
        if ended_by is not None:
            return ended_by, None
        if turn.over is not None:
            return turn.over.by, None
        is_missing = turn.owes_final and not self._endpointing.waits_for_recogniser(turn)
        return "transcript_timeout" if is_missing else "pause", self._endpointing.delay(turn)

    def _ask(self, turn: ClosedTurn, ended_by: EndedBy) -> str:
        """Queue an answer to a closed turn; return its id. The answer to a turn that a limit cut is owed."""
        self._answers += 1
        answer = self._floor.add_answer(f"answer_{self._answers}", turn)
        if ended_by in ("max_turn_words", "max_turn_duration"):
            answer.owe()
        return answer.speech_id

    def drop(self, reason: Literal["noise", "transcript_missing", "cleared", "closed"]) -> None:
        """Drop the open turn, which has nothing to answer."""
        if self._user.turn is not None:
            self._out.append(DropUserTurn(self._user.drop_turn(), reason))

    # --- finals that come after the commit

    def _is_ended_by_server(self, turn: UserTurn) -> bool:
        return self._options.traits.remote_decides and turn.is_heard

    def _await_final(
        self, turn: UserTurn, speech_id: str, now: float, *, is_remote: bool = False, item_id: str = ""
    ) -> Guess | None:
        guess = left = None
        name = self._finals.take_name()
        if turn.past.shown_at is not None:
            left = Guess(
                turn.segments[turn.past.shown_at],
                float("inf") if is_remote else now,
                was_voice=turn.burst is not None,
                is_followed=True,
                left_at=turn.past.left_at,
                committed_at=now,
            )
        if turn.interim or (is_remote and not turn.segments):
            # A remote model has heard the words itself; its transcript may come at any time.
            until = float("inf") if is_remote else now + self._options.endpointing.transcript_timeout
            # A recogniser that is asked to settle its audio begins a new utterance.
            is_being_said = turn.is_speech_going_on and turn.over is not None and turn.over.by == "text"
            guess = Guess(
                turn.interim,
                until,
                item_id=item_id or turn.interim_item_id or name,
                was_voice=turn.burst is not None,
                is_being_said=is_being_said,
                was_in_speech=turn.is_speech_going_on and not is_being_said,
                came_at=turn.utterance_at if turn.interim else float("-inf"),
                committed_at=now,
            )
        self._finals.committed(turn, speech_id, guess, left)
        return guess

    def audio_named(self, item_id: str) -> None:
        """Note the name that a model which hears the caller has given a turn's audio."""
        self._finals.name(item_id)

    def is_named(self, item_id: str) -> bool:
        """Return whether that audio belongs to a committed turn whose words are open."""
        return self._finals.is_named(item_id)

    def expect_no_final(self) -> None:
        """Expect no final any more: the committed words stay as they are."""
        self._finals.clear()
        self.amended = None

    def speech_began(self, at: float) -> float | None:
        """Note speech since `at`; return when its first words were committed, or None if all of it is new."""
        return self._finals.speech_began(at)

    def speech_ended(self, at: float) -> None:
        """Note the end of speech: the final of the words until now is to come soon."""
        self._finals.speech_ended(at, self._options.endpointing.transcript_timeout)

    def covers_interim(self, text: str, now: float, item_id: str) -> bool:
        """Return whether an interim still belongs to the committed words; if not, stop waiting for them."""
        if self._finals.cover_interim(text, now, item_id):
            return True
        self._finals.words_follow()
        return False

    def settle_late(
        self, text: str, now: float, item_id: str, *, is_past: bool = False, held: float = 0.0
    ) -> str | None:
        """Let a final amend the committed turn that it belongs to; return the words that count as new, or None without
        any.

        If it differs from the answered words and nothing of the answer was heard, the turn is opened again, or
        continues in the open one. If the answer was heard, the amended message is answered as the next turn.

        Args:
            is_past: Whether it comes from a recogniser that was replaced.
            held: Seconds between the recogniser's report and this call, for which the recogniser is not late.
        """
        turn, burst, given_at = self._user.turn, self._user.burst, now - held
        ended_at = None if burst is None else burst.ended_at
        is_in_speech = self._user.is_speaking or (ended_at is not None and ended_at > given_at)
        shown = "" if turn is None else turn.interim
        found = self._finals.take(text, given_at, item_id, is_in_speech=is_in_speech, shown=shown, is_past=is_past)
        if found is None:
            return self._finals.news(text, item_id) if text and not is_past else text
        whole, guess = found
        if not text:
            return None
        is_same = guess.is_same(text)
        if not whole.speech_id and not is_same and self._interruption.takes_floor(text):
            return text
        answer = self._floor.get(whole.speech_id)
        is_stale = not is_same and not guess.is_remote and answer is not None and self._may_take_back(answer)
        if is_stale and turn is None:
            whole.open_at(guess)
            self._reopen(whole, now)
            return text
        whole.settle(guess, text)
        if answer is not None:
            answer.amend(whole.text)
        if turn is not None and whole.turn_id in (turn.turn_id, turn.past.amends):  # it continues already
            turn.amend(whole.words)
        self._out.append(AmendUserTurn(whole.turn_id, whole.speech_id, whole.text))
        if whole.turn_id == self.last_turn[0]:
            self.last_turn = (whole.turn_id, whole.text)
        if is_stale:
            self._interruption.take_floor()
        elif whole.speech_id and not guess.is_remote and not guess.is_completed_by(text):
            if self._interruption.takes_floor(text):
                self.amended = (whole, now)
        return None

    def open_amended(self, now: float) -> None:
        """Have the amended turn answered, as a new turn."""
        assert self.amended is not None
        (whole, _), self.amended = self.amended, None
        self._user.open_amended(whole.turn_id, whole.words, now, since=whole.began_at)

    def _may_take_back(self, answer: Speech) -> bool:
        is_active = answer is self._floor.active
        return is_active and answer.is_unheard_answer and self._interruption.may_cut(answer)

    def _reopen(self, whole: CommittedTurn, now: float) -> None:
        turn = self._user.reopen(whole.turn_id, now)
        if self._options.is_manual:
            turn.end_as_requested(now)
        self._interruption.take_floor()
        turn.amend(whole.words)
