"""OwedFinals: of which bursts of a turn a final transcript is still to come.

A recogniser may give each burst a final of its own, or one final for several bursts. A final that arrives after the
true end of the last burst settles the turn, though the VAD reports that end later, with two exceptions: finals of this
turn have come one a burst so far and an earlier burst has none yet; or interims have shown words of the last burst that
the final lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from vivavoce.pipelines.core.words import words_of


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
    _has_all: bool = False
    _is_by_words: bool = False

    def burst_began(self, *, is_shown: bool = False) -> None:
        """A burst began, which is owed a final.

        Args:
            is_shown: Whether it began before the first interim of the present words, which the VAD reports later than
                the recogniser: if they count already, they are of this burst.
        """
        if not (is_shown and self._is_by_words and self.bursts):
            self.bursts += 1
        self._is_by_words = False

    def words_shown(self) -> None:
        """An interim shows words that are owed a final."""
        if not self.bursts:
            self.bursts, self._is_by_words = 1, True

    def forgive(self) -> None:
        """No final is waited for."""
        self.bursts = 0

    def final_came(self, *, is_in_speech: bool, has_all: bool) -> None:
        """A final came.

        Args:
            is_in_speech: Whether the newest burst continues, as far as the VAD has reported.
            has_all: Whether it has the words that interims have shown.
        """
        self._came_singly_before, self._has_all = self.came_singly, has_all
        owed, is_of_earlier = self.bursts, self.bursts > 1
        if self.came_singly and is_of_earlier:
            self.bursts -= 1
        elif not has_all or (is_in_speech and is_of_earlier):
            self.bursts = 1
        else:
            self.bursts = 0
        if is_of_earlier or not is_in_speech:
            self.came_singly = owed - self.bursts == 1 and self.came_singly is not False

    def burst_ended_before_final(self) -> None:
        """The VAD reports an end that was before the newest final: that final was of the newest burst too."""
        if self._has_all and not self._came_singly_before and self.bursts:
            self.bursts, self.came_singly = 0, False


def lacks_words(final: str, interim: str) -> bool:
    """Return whether `interim` continues behind the words of `final`, or has none of them."""
    shown, settled = words_of(interim), words_of(final)
    *blocks, _ = SequenceMatcher(None, shown, settled, autojunk=False).get_matching_blocks()
    if not blocks:
        return bool(shown)
    last = blocks[-1]
    return len(shown) - (last.a + last.size) > len(settled) - (last.b + last.size)
