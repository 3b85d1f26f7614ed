"""OwedFinals: the bursts of a turn whose final transcripts are still to come.

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
"""A final within so many seconds before the end of the only burst belongs to all of the burst."""
AT_END = 0.1
"""A final within so many seconds before the end of the second burst belongs to both bursts."""


@dataclass(slots=True)
class OwedFinals:
    """Counts the bursts of one turn that have no final.

    Args:
        bursts: The number of these bursts, the newest included; words without a burst count as one.
        came_singly: Whether each final so far was of one burst; None before the first one that shows it.
    """

    bursts: int = 0
    came_singly: bool | None = None
    _came_singly_before: bool | None = None
    _bursts_before: int | None = None
    """How many bursts were owed a final when the newest final came, if it came in the newest burst; else None."""
    _is_by_words: bool = False
    _is_rest: bool = False
    """Whether only the rest of a burst, which no interim has shown, is owed a final."""

    def burst_began(self, *, is_shown: bool = False) -> None:
        """Note that a burst began, which is owed a final.

        Args:
            is_shown: Whether it began before the first interim of the present words, since a VAD reports later than a
                recogniser. Those words, if counted already, then belong to this burst.
        """
        if not (self.bursts and (self._is_rest or (is_shown and self._is_by_words))):
            self.bursts += 1
        self._is_by_words = self._is_rest = False
        self._bursts_before = None

    def words_shown(self) -> None:
        """Note that an interim shows words that are owed a final."""
        if not self.bursts:
            self.bursts, self._is_by_words = 1, True

    def forgive(self) -> None:
        """Wait for no final any more."""
        self.bursts = 0

    def leave(self, *, is_in_speech: bool) -> None:
        """Wait for the successor of a recogniser, which owes a final only for speech that goes on."""
        self.bursts = int(is_in_speech)

    def final_came(
        self, *, is_in_speech: bool, has_all: bool, has_more: bool = False, leaves_rest: bool = False
    ) -> None:
        """Note that a final came.

        Args:
            is_in_speech: Whether the newest burst continues, as far as the VAD has reported.
            has_all: Whether it has the words that interims have shown.
            has_more: Whether it has those words and more.
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
        """Whether the newest final came in the newest burst, which was the only burst without a final."""
        return self._bursts_before is not None and self._bursts_before <= 1

    def burst_ended(self, since_final: float) -> None:
        """Note that the newest burst ended so many seconds after the newest final, or before it; that final may belong
        to it too.

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
    """Return whether `interim` continues beyond the words of `final`, or has none of them."""
    shown, settled = words_of(interim), words_of(final)
    *blocks, _ = SequenceMatcher(None, shown, settled, autojunk=False).get_matching_blocks()
    if not blocks:
        return bool(shown)
    last = blocks[-1]
    return len(shown) - (last.a + last.size) > len(settled) - (last.b + last.size)
