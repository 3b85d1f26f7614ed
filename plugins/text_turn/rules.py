"""Rules of one language: from the words of a turn to the probability that it is complete."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from vivavoce.pipelines.turn_detector.base import TurnContext
from vivavoce.plugins.text_turn.dictation import DictationRules
from vivavoce.plugins.text_turn.words import Utterance

UNKNOWN = 0.5
"""The probability without words, or without rules for the language."""


class Judge(Protocol):
    """Judges turns of one language: `Rules`, or any callable like it."""

    def __call__(self, context: TurnContext, /) -> float:
        """Return the probability that the turn is complete (0 … 1)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Words and patterns of one language; change some with `dataclasses.replace`.

    Patterns see the last 60 words in lower case, with one space between them and no punctuation.

    Args:
        fillers: Sounds of a thinking speaker: `um`.
        holds: Requests to wait, and thinking aloud, at the end.
        complete: Whole turns that one of the rules below would take for unfinished.
        open_words: No sentence ends with them: articles, conjunctions, prepositions, possessives.
        strandable: Those of the `open_words` that a question may end with: `where are you from`.
        question_words: Words that make `strandable` words an end.
        open_endings: Beginnings of phrases that need to go on, at the end: `I'd like`, `my name is`.
        short_answers: Whole answers to a question that would be unfinished otherwise: `yes I would`.
        clause_openers: First words that announce a second clause: `if`.
        subjects: Words that each clause has once; with two of them the second clause is there.
        dictation: Numbers, spellings, addresses.
    """

    fillers: frozenset[str]
    holds: re.Pattern[str]
    complete: re.Pattern[str]
    open_words: frozenset[str]
    strandable: frozenset[str] = frozenset()
    question_words: frozenset[str] = frozenset()
    open_endings: re.Pattern[str]
    short_answers: re.Pattern[str]
    clause_openers: re.Pattern[str]
    subjects: frozenset[str]
    dictation: DictationRules

    def __call__(self, context: TurnContext, /) -> float:
        """Return the probability by the first rule that applies."""
        said = Utterance.parse(context.text)
        if not said.words:
            return UNKNOWN
        if said.last in self.fillers:
            return 0.1
        if self.holds.search(said.plain):
            return 0.2
        dictated = self.dictation.probability(said, context.agent_text)
        if dictated is not None:
            return dictated
        return self._of_phrase(said, is_answer=context.agent_text.rstrip().endswith("?"))

    def _of_phrase(self, said: Utterance, *, is_answer: bool) -> float:
        if said.mark == "?":
            return 0.95
        if said.mark in ("…", ",", ";", ":", "-"):
            return 0.2
        if not is_answer and self._lacks_main_clause(said):
            return 0.25
        if self.complete.search(said.plain) or (is_answer and self.short_answers.fullmatch(said.plain)):
            return 0.9
        if said.last in self.open_words and not self._is_stranded(said):
            return 0.05
        if self.open_endings.search(said.plain):
            return 0.15
        return 0.9

    def _is_stranded(self, said: Utterance) -> bool:
        return said.last in self.strandable and not self.question_words.isdisjoint(said.words[:-1])

    def _lacks_main_clause(self, said: Utterance) -> bool:
        is_open = self.clause_openers.match(said.plain) is not None
        return is_open and sum(word in self.subjects for word in said.words) < 2
