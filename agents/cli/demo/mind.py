"""CallerMind: what the simulated caller says next, decided from what it hears. Pure; time is received samples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from vivavoce.agents.caller.line import SAMPLE_RATE, Decision, HangUp, Say

REPLY_PAUSE = 0.6
"""Seconds of silence after which the caller takes the host's turn to be over."""
PATIENCE = 6.0
"""Seconds of silence after which it says its last line again."""
MAX_REPEATS = 2
TAKEOVER = 3.0
"""Seconds in which another host may take over from one that left."""
BARGE_IN_AFTER = 0.3
"""Seconds for which the words that make it interrupt must have stood in the transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the caller wants.

    Args:
        opening: What it says when it understood nothing of the greeting.
        answers: What it says to a question; the question is known by the words that it ends with or holds.
        barge_in: `(heard, line)`: the words upon which it interrupts the host, and how.
        correction: `(question, line)`: what it says to that question the first time, instead of the answer.
        read_back: What the corrected booking must be read back with, and what it says to one that lacks a word of it.
        booked: The host's word that reads a booking back; before it, `correction`'s question is one misheard.
        changed: The host's word that reads a changed booking back.
        farewell: The host's word upon which it hangs up.
        first_booking: What must be booked before the correction.
        booking: What must be booked in the end.
    """

    opening: str
    answers: tuple[tuple[str, str], ...]
    barge_in: tuple[str, str]
    correction: tuple[str, str]
    read_back: tuple[tuple[str, str], ...]
    booked: str
    changed: str
    farewell: str
    first_booking: dict[str, str | int]
    booking: dict[str, str | int]

    @property
    def lines(self) -> list[str]:
        """Everything that the caller may say."""
        objections = (line for _, line in self.read_back)
        answers = (line for _, line in self.answers)
        return list(dict.fromkeys([self.opening, *answers, self.barge_in[1], self.correction[1], *objections]))


DEMO_SCRIPT = Script(
    opening="hello",
    answers=(
        ("which day", "table for friday please"),
        ("what time", "at seven"),
        ("how many", "four people"),
        ("booking right", "yes thank you goodbye"),  # in one breath: parts by themselves are easily misheard
    ),
    barge_in=("house rules", "stop please"),
    correction=("booking right", "no, at eight"),
    read_back=(("eight", "no, at eight"), ("four", "no, four people"), ("friday", "no, on friday")),
    booked="booked",
    changed="changed",
    farewell="goodbye",
    first_booking={"day": "friday", "time": "19:00", "people": 4},
    booking={"day": "friday", "time": "20:00", "people": 4},
)


@dataclass(slots=True)
class Turn:
    """One line of the caller and what it heard after it; samples on the call's clock."""

    line: str
    start: int
    end: int
    is_barge_in: bool = False
    answer: str = ""


@dataclass(slots=True)
class CallerMind:
    """Feed it what was heard, in order, and ask it once a frame.

    Times are positions in samples of `SAMPLE_RATE` since the first one received.
    """

    script: Script = DEMO_SCRIPT
    turns: list[Turn] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    """Settled words of what the host began to say after the last line."""
    _begun: deque[int] = field(default_factory=deque)
    _interim: str = ""
    _cue_since: int | None = None
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
        """There is a host again."""
        self._left_at = None

    def interim(self, text: str, position: int) -> None:
        """The utterance sounds like this so far."""
        self._has_heard_booking |= self.script.booked in text
        cue = self.script.barge_in[0]
        if cue not in text:
            self._cue_since = None
        elif self._cue_since is None:
            self._cue_since = position
        self._interim = text

    def final(self, text: str) -> None:
        """An utterance is settled; empty when no words were understood, or it was cut in the middle of a sentence."""
        begun = self._begun.popleft()
        text = text or self._interim
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
        """Return what to do now, at `position`."""
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
        since = self._cue_since
        if self._has_barged_in or since is None or position - since < BARGE_IN_AFTER * SAMPLE_RATE:
            return None
        return Say(self.script.barge_in[1], is_barge_in=True)

    def _answer(self, words: str) -> str:
        """Return what to say to the question that came last."""
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
        """Return what to say to a changed booking that is read back wrong, a few times at most: it may be misheard."""
        if self.script.changed not in words or self._objections >= MAX_REPEATS:
            return ""
        return next((line for word, line in self.script.read_back if word not in words.split()), "")

    def _repeat(self) -> Decision:
        if not self.turns:
            return Say(self.script.opening)
        if self._repeats >= MAX_REPEATS:
            return HangUp(f"no answer that I understood to {self.turns[-1].line!r}, said {self._repeats + 1} times")
        return Say(self.turns[-1].line, is_repeat=True)
