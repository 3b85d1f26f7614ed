"""AnsweringMind: a caller that answers the agent's questions, by its own hearing. Pure; time is received samples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from vivavoce.agents.caller.line import SAMPLE_RATE, Decision, HangUp, Say
from vivavoce.pipelines.core.words import words_of

REPLY_PAUSE = 0.6
"""Seconds of silence after which the host's turn counts as over."""
PATIENCE = 6.0
"""Seconds of silence after which the caller repeats its last line."""
MAX_REPEATS = 2
TAKEOVER = 3.0
"""Seconds in which another host may take over from one that left."""
BARGE_IN_AFTER = 0.3
"""Seconds for which the words that trigger an interruption must have been in the transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The caller's plan; it recognises the host's words in lower case, without punctuation.

    Args:
        opening: Line for a greeting that was not understood.
        answers: Answers to questions; a question is recognised by words at its end or in it.
        barge_in: `(heard, line)`: words that trigger an interruption of the host, and the line for it.
        correction: `(question, line)`: the first answer to that question, in place of the regular one.
        read_back: Words that the host must repeat for the corrected booking, in one of their spellings, and the line
            for a missing word.
        booked: The host's word for a booking; before it, `correction`'s question is a misheard one.
        changed: The host's word for a changed booking.
        farewell: The host's word after which the caller hangs up.
        first_booking: The booking that must exist before the correction.
        booking: The booking that must exist in the end.
    """

    opening: str
    answers: tuple[tuple[str, str], ...]
    barge_in: tuple[str, str]
    correction: tuple[str, str]
    read_back: tuple[tuple[tuple[str, ...], str], ...]
    booked: str
    changed: str
    farewell: str
    first_booking: dict[str, str | int]
    booking: dict[str, str | int]

    @property
    def lines(self) -> list[str]:
        """All lines that the caller may say."""
        objections = (line for _, line in self.read_back)
        answers = (line for _, line in self.answers)
        return list(dict.fromkeys([self.opening, *answers, self.barge_in[1], self.correction[1], *objections]))


@dataclass(slots=True)
class Turn:
    """One line of the caller and the answer that it heard.

    Args:
        start, end: Samples on the call's clock, the recording's too, between which the line was played, its silent
            edges included.
        answer: The agent's words after it, as the caller recognised them.
    """

    line: str
    start: int
    end: int
    is_barge_in: bool = False
    answer: str = ""


@dataclass(slots=True)
class AnsweringMind:
    """Decides for the simulated caller: it receives events in order, and is asked for a decision once a frame.

    Times are positions in samples of `SAMPLE_RATE` since the first one received.
    """

    script: Script
    turns: list[Turn] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    """Final transcripts of the host's speech after the last line."""
    _begun: deque[int] = field(default_factory=deque)
    _interim: str = ""
    _cue_since: int | None = None
    _has_heard_cue: bool = False
    """An utterance with the words that trigger an interruption is over."""
    _left_at: int | None = None
    _is_host_speaking: bool = False
    _quiet_since: int = 0
    _repeats: int = 0
    _has_barged_in: bool = False
    _has_corrected: bool = False
    _objections: int = 0
    _has_heard_booking: bool = False

    def host_started(self, position: int) -> None:
        """The host began to speak: an utterance that ends with one final transcript."""
        self._begun.append(position)
        self._is_host_speaking = True

    def host_ended(self, position: int) -> None:
        """The host fell silent; the utterance's final transcript will follow."""
        self._is_host_speaking = False
        self._quiet_since = max(self._quiet_since, position)

    def host_left(self, position: int, *, may_return: bool) -> None:
        """The host is gone; another one may take over in a moment."""
        self._left_at = position

    def host_returned(self, position: int) -> None:
        """A host is present again."""
        self._left_at = None

    def interim(self, text: str, position: int) -> None:
        """The present transcript of the utterance."""
        text = _bare(text)
        self._has_heard_booking |= self.script.booked in text
        if self.script.barge_in[0] not in text:
            self._cue_since = None
        elif self._cue_since is None:
            self._cue_since = position
        self._interim = text

    def final(self, text: str) -> None:
        """The final transcript of an utterance; empty if no words were understood, or it was cut in the middle of a
        sentence.
        """
        begun = self._begun.popleft()
        text = _bare(text) or self._interim
        self._has_heard_cue |= self.script.barge_in[0] in text
        self._interim, self._cue_since = "", None
        answered = next((turn for turn in reversed(self.turns) if turn.start <= begun), None)
        if not text:
            return
        self._has_heard_booking |= self.script.booked in text
        if answered is not None:
            answered.answer = f"{answered.answer} {text}".lstrip()
        if not self.turns or answered is self.turns[-1]:
            self.heard.append(text)

    def decide(self, position: int) -> Decision | None:
        """Return the next action at `position`, if any."""
        if self._left_at is not None:
            is_over = position - self._left_at >= TAKEOVER * SAMPLE_RATE
            return HangUp("the host left before the call was over") if is_over else None
        if self.turns and position < self.turns[-1].end:
            return None
        if self._is_host_speaking:
            return self._interrupt(position)
        quiet = position - self._quiet_since
        if self._begun or quiet < REPLY_PAUSE * SAMPLE_RATE:
            return None
        if self.heard:
            words = " ".join(self.heard)
            if self.script.farewell in words:
                return HangUp()
            if line := self._answer(words):
                return Say(line)
        if quiet >= PATIENCE * SAMPLE_RATE:
            return self._repeat()
        return None

    def said(self, say: Say, start: int, end: int) -> None:
        """A line is being spoken, from `start` to `end`."""
        self.turns.append(Turn(say.line, start, end, say.is_barge_in))
        self.heard.clear()
        self._quiet_since = end
        self._has_barged_in |= say.is_barge_in
        if say.line in (line for _, line in self.script.read_back):
            self._objections += self._has_corrected
        self._has_corrected |= say.line == self.script.correction[1]
        self._repeats = self._repeats + 1 if say.is_repeat else 0

    def _interrupt(self, position: int) -> Decision | None:
        since = self._begun[-1] if self._has_heard_cue else self._cue_since
        if self._has_barged_in or since is None or position - since < BARGE_IN_AFTER * SAMPLE_RATE:
            return None
        return Say(self.script.barge_in[1], is_barge_in=True)

    def _answer(self, words: str) -> str:
        """Return the answer to the last question."""
        about_booking, correction = self.script.correction
        found = [
            (words.rfind(question), question, line)
            for question, line in self.script.answers
            if question in words and (self._has_heard_booking or question != about_booking)
        ]
        if not found:
            return ""
        _, question, line = max(found)
        if question != about_booking:
            return line
        return (self._objection(words) or line) if self._has_corrected else correction

    def _objection(self, words: str) -> str:
        """Return the objection to a changed booking that is read back wrong, a few times at most: it may be
        misheard.
        """
        if self.script.changed not in words or self._objections >= MAX_REPEATS:
            return ""
        heard = set(words.split())
        return next((line for spellings, line in self.script.read_back if heard.isdisjoint(spellings)), "")

    def _repeat(self) -> Decision:
        if not self.turns:
            return Say(self.script.opening)
        if self._repeats >= MAX_REPEATS:
            return HangUp(f"no answer that I understood to {self.turns[-1].line!r}, said {self._repeats + 1} times")
        return Say(self.turns[-1].line, is_repeat=True)


def _bare(text: str) -> str:
    return " ".join(words_of(text))
