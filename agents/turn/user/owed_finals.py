"""OwedFinals: of which bursts of a turn a final transcript is still to come.

A recogniser may give each burst a final of its own, or one final for several bursts. A final that arrives after the
true end of the last burst settles the turn, though the VAD reports that end later, with two exceptions: finals of this
turn have come one a burst so far and an earlier burst has none yet; or interims have shown words of the last burst that
the final lacks.

A final in the midst of a burst:

* In the only burst without one, it counts as behind the end if it comes in the last `NEAR_END` seconds. An earlier one
  leaves the rest of the burst open: where the recogniser gives interims, these show words that are owed a final; where
  it gives none, the rest itself is owed one, with the next burst if that begins before.
* In the second of two bursts without one, it settles both if it comes at most `AT_END` before the end, or holds all
  words that interims have shown and more. Else it is of the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from vivavoce.pipelines.core.words import words_of

NEAR_END = 0.5
"""Seconds before the end of the only burst in which a final is of all of it."""
AT_END = 0.1
"""Seconds before the end of the second burst in which a final is of both."""


@dataclass(slots=True)
class OwedFinals:
    """Counts the bursts of one turn that have no final.

    Args:
        bursts: How many these are, the newest one included; words without a burst count as one.
        came_singly: Whether each final so far was of one burst; None before the first one that shows it.
    """

    bursts: int = 0
    came_singly: bool | None = None
    _came_singly_before: bool | None = None
    _bursts_before: int | None = None
    """How many bursts were owed one when the newest final came in the newest burst; None if none came in it."""
    _is_by_words: bool = False
    _is_rest: bool = False
    """Whether only the rest of a burst is owed one, which no interim has shown."""

    def burst_began(self, *, is_shown: bool = False) -> None:
        """A burst began, which is owed a final.

        Args:
            is_shown: Whether it began before the first interim of the present words, which the VAD reports later than
                the recogniser: if they count already, they are of this burst.
        """
        if not (self.bursts and (self._is_rest or (is_shown and self._is_by_words))):
            self.bursts += 1
        self._is_by_words = self._is_rest = False
        self._bursts_before = None

    def words_shown(self) -> None:
        """An interim shows words that are owed a final."""
        if not self.bursts:
            self.bursts, self._is_by_words = 1, True

    def forgive(self) -> None:
        """No final is waited for."""
        self.bursts = 0

    def leave(self, *, is_in_speech: bool) -> None:
        """Wait for the successor of a recogniser: only speech that goes on is owed a final by it."""
        self.bursts = int(is_in_speech)

    def final_came(
        self, *, is_in_speech: bool, has_all: bool, has_more: bool = False, leaves_rest: bool = False
    ) -> None:
        """A final came.

        Args:
            is_in_speech: Whether the newest burst continues, as far as the VAD has reported.
            has_all: Whether it has the words that interims have shown.
            has_more: Whether it has those and more.
            leaves_rest: Whether no interim will show the words that follow in the same burst.
        """
        self._came_singly_before = self.came_singly
        owed, is_of_earlier = self.bursts, self.bursts > 1
        self._bursts_before = owed if is_in_speech else None
        self._is_rest = is_in_speech and leaves_rest and has_all and not is_of_earlier
        if self.came_singly and is_of_earlier:
            self.bursts -= 1
        elif not has_all or (is_in_speech and is_of_earlier and not has_more) or self._is_rest:
            self.bursts = 1
        else:
            self.bursts = 0
        if is_of_earlier or not is_in_speech:
            self.came_singly = owed - self.bursts == 1 and self.came_singly is not False

    @property
    def is_of_only_burst(self) -> bool:
        """Whether the newest final came in the newest burst, the only one without one."""
        return self._bursts_before is not None and self._bursts_before <= 1

    def burst_ended(self, since_final: float) -> None:
        """The newest burst ended so many seconds after the newest final, or before it: that may be of it too.

        Not to be called if an interim shows words that the final lacks.
        """
        owed, is_only, self._bursts_before = self._bursts_before, self.is_of_only_burst, None
        if owed is None or since_final > (NEAR_END if is_only else AT_END):
            return
        if is_only:
            self.bursts = 0
            self.came_singly = self.came_singly if owed == 0 else self.came_singly is not False
        elif not self._came_singly_before:
            self.bursts, self.came_singly = 0, False


def lacks_words(final: str, interim: str) -> bool:
    """Return whether `interim` continues behind the words of `final`, or has none of them."""
    shown, settled = words_of(interim), words_of(final)
    *blocks, _ = SequenceMatcher(None, shown, settled, autojunk=False).get_matching_blocks()
    if not blocks:
        return bool(shown)
    last = blocks[-1]
    return len(shown) - (last.a + last.size) > len(settled) - (last.b + last.size)
