"""Numbers, spellings and e-mail addresses that are still being dictated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.plugins.text_turn.words import Utterance

DONE, OPEN, PERHAPS_OPEN = 0.9, 0.15, 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class DictationRules:
    """One language's words for digits and letters, and patterns of questions for them.

    Args:
        digits: Digits that a number word stands for; `double` and the like count what they add.
        tens: Number words that a following unit completes: `twenty` in `twenty five`.
        compound: Matches one-word numbers of two digits, such as `fünfundzwanzig`.
        expected: Patterns of things asked for or announced, and their least number of digits; the first match counts.
        email: Matches an agent's text that asks for an e-mail address.
        email_done: Matches a whole spoken or written address at the end.
        refusals: Words of a caller who says something else instead.
    """

    digits: Mapping[str, int]
    tens: frozenset[str] = frozenset()
    compound: re.Pattern[str] | None = None
    expected: tuple[tuple[re.Pattern[str], int], ...] = ()
    email: re.Pattern[str] = field(default=re.compile(r"\be-?mail\b", re.IGNORECASE))
    email_done: re.Pattern[str]
    refusals: frozenset[str] = frozenset()

    def probability(self, said: Utterance, agent_text: str) -> float | None:
        """Return the probability that the dictation is over, or None without a dictation."""
        for rule in (self._of_email, self._of_spelling, self._of_number):
            if (found := rule(said, agent_text)) is not None:
                return found
        return None

    def count(self, said: Utterance) -> int:
        """Return the number of digits in the utterance."""
        total, after_tens = 0, False
        for word in said.words:
            digits = sum(character.isdigit() for character in word)
            if not digits and self.compound is not None and self.compound.fullmatch(word):
                digits = 2
            elif not digits:
                digits = self.digits.get(word, 0)
            total += 0 if after_tens and digits == 1 else digits
            after_tens = word in self.tens
        return total

    def _of_email(self, said: Utterance, agent_text: str) -> float | None:
        if not self.email.search(agent_text) or self.refusals & set(said.words):
            return None
        return DONE if self.email_done.search(said.plain) else OPEN

    def _of_spelling(self, said: Utterance, agent_text: str) -> float | None:
        run = len(said.words)
        while run and len(said.words[run - 1]) == 1 and said.words[run - 1].isalpha():
            run -= 1
        letters = "".join(said.words[run:])
        if len(letters) < 2:
            return None
        named = said.words[run - 1] if run else ""
        if named == letters:
            return DONE
        return OPEN if named.startswith(letters) else PERHAPS_OPEN

    def _of_number(self, said: Utterance, agent_text: str) -> float | None:
        count = self.count(said)
        if not count:
            return None
        least = next((least for wanted, least in self.expected if wanted.search(f"{agent_text} {said.plain}")), 0)
        if not least:
            return None
        return DONE if count >= least else OPEN
