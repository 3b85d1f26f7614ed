"""RecogniserPace: judges whether the recogniser is slow: then its silence does not prove that the caller is silent.

A recogniser that gives interims is slow after two bursts with words in a row whose first interim came more than `LATE`
after the first word, until two quick ones follow. No recogniser gives times of words, so the onset stands for the first
word, of a burst that began within `REPLY` of silence: a sound that begins later may be any noise before the words.
Where bursts without words precede, an interim may be of any of them, and is judged if they all say the same.
"""

from __future__ import annotations

from vivavoce.agents.turn.deadlines import NANOSECOND_DIGITS

LATE = 2.0
"""An interim is late if it comes more than so many seconds after the first word."""
REPLY = 1.0
"""The longest silence, of caller and agent, after which a sound counts as speech from its onset on."""
IN_A_ROW = 2
"""The number of late or of quick bursts in a row that changes the judgement."""


class RecogniserPace:
    """Judges one recogniser by the bursts of the caller, in their order."""

    def __init__(self) -> None:
        self.is_slow = False
        self._row = 0
        """The number of bursts in a row that contradict the judgement."""
        self._waits_since: tuple[float, float] | None = None
        """The onsets of the first and the last burst without words; None if no burst can be judged."""

    def burst_began(self, at: float, *, silence: float) -> None:
        """Note that a burst began at `at`, after so many seconds in which neither side was heard."""
        if round(silence, NANOSECOND_DIGITS) > REPLY:
            self._waits_since = None
        else:
            self._waits_since = (at if self._waits_since is None else self._waits_since[0], at)

    def interim_came(self, now: float) -> None:
        """Note that an interim shows new words."""
        if self._waits_since is not None:
            verdicts = {round(now - onset, NANOSECOND_DIGITS) > LATE for onset in self._waits_since}
            if len(verdicts) == 1:
                self._judge(is_late=verdicts.pop())
        self._waits_since = None

    def final_came(self, spoken_until: float) -> None:
        """Note a final with words of the newest burst, which has sounded until now; judge it if no interim has shown
        any."""
        if self._waits_since is not None and round(spoken_until - self._waits_since[1], NANOSECOND_DIGITS) > LATE:
            self._judge(is_late=True)
        self._waits_since = None

    def final_of_earlier_came(self) -> None:
        """Note a final with words of a burst before the newest one."""
        if self._waits_since is not None:
            self._waits_since = (self._waits_since[1], self._waits_since[1])

    def skip(self) -> None:
        """Judge none of the bursts so far: the recogniser was without a connection."""
        self._waits_since = None

    def _judge(self, *, is_late: bool) -> None:
        self._row = self._row + 1 if is_late is not self.is_slow else 0
        if self._row == IN_A_ROW:
            self.is_slow, self._row = is_late, 0
