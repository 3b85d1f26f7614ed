"""Answering: a user turn that is over is answered, kept unanswered, or waits for a protected speech.

Also what a late final does to a turn that was committed as an interim.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Literal

from vivavoce.agents.turn.effects import (
    AddBackchannel,
    AmendUserTurn,
    CommitUserTurn,
    DropUserTurn,
    Effect,
    EndedBy,
    UserTurnLimitReached,
)
from vivavoce.agents.turn.endpointing import Endpointing
from vivavoce.agents.turn.floor import Floor
from vivavoce.agents.turn.hush import Hush
from vivavoce.agents.turn.interruption import Interruption
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.preemption import Preemption
from vivavoce.agents.turn.user_turn import Burst, Over, UserSide, UserTurn

ALIKE = 0.5
"""Share of equal words from which a transcript passes for a revision of another one, where no VAD tells."""


@dataclass(frozen=True, slots=True)
class OpenFinal:
    """A turn whose commit came before its last final.

    Args:
        speech_id: Its answer; empty for a backchannel.
        before, guess, after: Its words: the settled ones, the interim, and what was typed.
        until: When a final no longer belongs to it.
        item_id: The provider's name of the utterance; empty where it has none, so that the order of finals counts.
        was_voice: A VAD heard it: what comes before it hears new speech is of this utterance, whatever it says.
        is_by_name_only: New speech has begun since, so that nothing but `item_id` shows that a final belongs to it.
    """

    turn_id: str
    speech_id: str
    before: str = field(repr=False)
    guess: str = field(repr=False)
    after: str = field(repr=False)
    until: float
    item_id: str = ""
    was_voice: bool = False
    is_by_name_only: bool = False

    def may_be(self, item_id: str, now: float) -> bool:
        """Whether a transcript that comes now may be of the utterance that is still to be settled."""
        is_named = bool(item_id and self.item_id)
        is_its_own = item_id == self.item_id if is_named else not self.is_by_name_only
        return is_its_own and now <= self.until

    def resembles(self, text: str) -> bool:
        """Whether `text` reads like a revision of the interim, as far as one can tell by the words."""
        guess, revised = _plain(self.guess), _plain(text)
        if guess.startswith(revised) or revised.startswith(guess):
            return True
        return SequenceMatcher(None, guess.split(), revised.split(), autojunk=False).ratio() >= ALIKE

    def is_same(self, text: str) -> bool:
        """Whether nothing but spelling differs."""
        return _plain(self.guess) == _plain(text)


class Answering:
    """Ends the user's turn. Numbers the answers, and remembers the last commit while its final may still come."""

    def __init__(
        self,
        options: TurnOptions,
        floor: Floor,
        user: UserSide,
        interruption: Interruption,
        hush: Hush,
        endpointing: Endpointing,
        preemption: Preemption | None,
        out: list[Effect],
    ) -> None:
        self._options = options
        self._hush = hush
        self._endpointing = endpointing
        self._preemption = preemption
        self._floor = floor
        self._user = user
        self._interruption = interruption
        self._out = out
        self._answers = 0
        self._open_final: OpenFinal | None = None

    def is_deferred(self, turn: UserTurn) -> bool:
        """Whether the words of that turn have to wait for a speech that they may not cut."""
        active = self._floor.active
        if active is None or not turn.has_words:
            return False
        is_by_voice = not turn.is_over_by_word
        if self._interruption.may_cut(active):
            return is_by_voice and self._is_hushed(turn)
        return is_by_voice or not active.interruptible

    def _is_hushed(self, turn: UserTurn) -> bool:
        if len(turn.segments) > turn.hushed or turn.typed:
            return False
        return self._hush.covers(turn) if turn.interim else turn.hushed > 0

    def finish(self, now: float, ended_by: EndedBy | None = None) -> None:
        """The open turn is over: answer it, keep it as a backchannel, or drop it.

        Args:
            ended_by: By whom; None if by what the turn itself knows, such as the pause going on.
        """
        turn = self._user.turn
        if turn is None or self.is_deferred(turn):
            return
        if not turn.has_words:
            self.drop("transcript_missing")
            return
        may_be_sign = turn.over is None and not turn.is_merged and self._floor.was_heard
        if may_be_sign and self._interruption.is_only_sign(turn, now):
            if turn.hushed and not turn.interim:  # it goes with words that wait for an answer
                turn.hushed = len(turn.segments)
                self._interruption.let_go_on()
                return
            self._out.append(AddBackchannel(turn.turn_id, turn.new_text))
            self._await_final(turn, "", now)
            self._close_turn(now)
            self._interruption.let_go_on()
            return
        self.commit(turn, now, ended_by)

    def commit(self, turn: UserTurn, now: float, ended_by: EndedBy | None = None, *, remote_reply_id: str = "") -> None:
        """Take the floor for the open turn and have it answered."""
        self._user.act(now)
        delay = None
        if ended_by is None and turn.over is not None:
            ended_by = turn.over.by
        elif ended_by is None:
            ended_by = "transcript_timeout" if turn.owes_final else "pause"
            delay = turn.delay(self._options, self._endpointing.min_delay)
        self._endpointing.turn_ended(turn.silence_since if ended_by == "pause" and turn.burst is not None else None)
        if ended_by == "max_turn_words" or ended_by == "max_turn_duration":
            words, seconds = len(turn.text.split()), round(now - turn.began_at, 6)
            self._out.append(UserTurnLimitReached(turn.turn_id, ended_by, words, seconds))
        self._interruption.take_floor()
        self._answers += 1
        speech_id = f"answer_{self._answers}"
        answer = self._floor.add(speech_id, "turn", turn_id=turn.turn_id, text=turn.text)
        answer.turn_began_at = turn.began_at
        answer.is_owed = ended_by in ("max_turn_words", "max_turn_duration")
        self._out.append(
            CommitUserTurn(
                turn_id=turn.turn_id,
                speech_id=speech_id,
                text=turn.text,
                timing=turn.timing(now, ended_by, delay),
                merged=turn.is_merged,
                settles_audio=turn.settles_audio and not remote_reply_id,
                remote_reply_id=remote_reply_id,
                attempt_id=self._preemption.adopt(turn) if self._preemption is not None else "",
            )
        )
        self._await_final(turn, speech_id, now, is_remote=bool(remote_reply_id))
        self._close_turn(now)

    def drop(self, reason: Literal["noise", "transcript_missing", "cleared"]) -> None:
        """The open turn came to nothing."""
        turn = self._user.turn
        if turn is not None:
            self._user.turn = None
            self._out.append(DropUserTurn(turn.turn_id, reason))

    def _close_turn(self, now: float) -> None:
        turn, user = self._user.turn, self._user
        user.turn = None
        burst = user.burst
        if turn is not None and burst is not None and burst.is_going_on and turn.burst is burst:
            # what is said from here on is of another turn
            user.burst = Burst(now, is_mere_noise=burst.is_mere_noise)

    # --- finals that come after the commit

    def _await_final(self, turn: UserTurn, speech_id: str, now: float, *, is_remote: bool = False) -> None:
        self._open_final = None
        if turn.interim or (is_remote and not turn.segments):
            # A remote model has heard the words itself; its transcript may come at any time.
            until = float("inf") if is_remote else now + self._options.endpointing.transcript_timeout
            self._open_final = OpenFinal(
                turn.turn_id,
                speech_id,
                turn.settled_text,
                turn.interim,
                turn.typed,
                until,
                item_id=turn.interim_item_id,
                was_voice=turn.burst is not None,
            )

    def expect_no_final(self) -> None:
        """Whatever is said from now on is new."""
        self._open_final = None

    def speech_began(self) -> None:
        """What is recognised from now on is new, unless its name says otherwise."""
        late = self._open_final
        self._open_final = replace(late, is_by_name_only=True) if late is not None and late.item_id else None

    def covers_interim(self, text: str, now: float, item_id: str) -> bool:
        """Whether an interim is still of the words that were committed; else those are over."""
        late = self._open_final
        if late is not None and late.may_be(item_id, now) and (late.item_id or late.was_voice or late.resembles(text)):
            return True
        self.speech_began()
        return False

    def settle_late(self, text: str, now: float, item_id: str) -> bool:
        """Let a final amend the committed turn that it belongs to; False if its words are to be taken as said now.

        Where it says something else than was answered and nothing of the answer was heard, the turn is opened again.
        """
        late = self._open_final
        if late is None or not late.may_be(item_id, now):
            return False
        self._open_final = None
        if not text:
            return True
        is_same = late.is_same(text)
        if not late.speech_id and not is_same and self._interruption.takes_floor(text):
            return False
        answer, active = self._floor.get(late.speech_id), self._floor.active
        is_remote = late.until == float("inf")
        if answer is not None and not is_same and not is_remote and answer is active and self._user.turn is None:
            if answer.is_unheard_answer and self._interruption.may_cut(answer):
                self._reopen(late, now)
                return False
        whole = " ".join(part for part in (late.before, text, late.after) if part)
        if answer is not None:
            answer.text = whole
        self._out.append(AmendUserTurn(late.turn_id, late.speech_id, whole))
        return True

    def _reopen(self, late: OpenFinal, now: float) -> None:
        turn = UserTurn(late.turn_id, now, burst=self._user.burst, typed=late.after)
        if self._options.endpointing.mode == "manual":
            turn.over = Over(now)
        self._user.turn = turn
        self._interruption.take_floor()
        turn.earlier_text = late.before


def _plain(text: str) -> str:
    words = ("".join(letter for letter in word if letter.isalnum()) for word in text.lower().split())
    return " ".join(word for word in words if word)
