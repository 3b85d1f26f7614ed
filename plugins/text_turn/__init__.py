"""A turn detector without weights: rules on the words of the turn, for English and German.

    CascadingPipeline(..., turn_detector=text_turn.TurnDetector(language="de"))

It detects turns that cannot be over: they end with an article, conjunction, preposition (`a table for`), possessive,
with a filler (`um`), the beginning of a phrase (`I'd like`, `my name is`), a clause that needs another (`if I come on
Friday`), a request to wait (`hold on`), or with a number, a spelling or an e-mail address that still goes on: too few
digits for the agent's question, letters that do not yet spell the name said before. Every other turn counts as whole. A
missed unfinished turn costs nothing compared with no detector; a whole turn that is taken for unfinished costs the
caller `endpointing.max_delay`. The rules are therefore careful with the latter.

Hits and misses on 185 turns are in `EXAMPLES.md` beside this file, checked by a test. On the 45 of them that were
written after the rules: 22 of 24 whole turns were judged whole, 12 of 21 unfinished ones unfinished. It hears no
intonation: a caller who stops after `I'd like a table`, wanting to add `for two`, has a whole turn; `smart_turn` is for
such cases. It needs neither punctuation nor capitals; a question mark counts. A verdict costs 0.1 ms, with thousands of
words 3 ms.

Each language is a `Rules` value: change words and patterns with `dataclasses.replace(ENGLISH, …)`, or give any callable
from `TurnContext` to a probability, also for a language that is not here:

    text_turn.TurnDetector(rules={"en": replace(ENGLISH, fillers=ENGLISH.fillers | {"like"}), "fr": my_french})
"""

from __future__ import annotations

from vivavoce.plugins.text_turn.detector import TurnDetector
from vivavoce.plugins.text_turn.dictation import DictationRules
from vivavoce.plugins.text_turn.english import ENGLISH
from vivavoce.plugins.text_turn.german import GERMAN
from vivavoce.plugins.text_turn.rules import Judge, Rules

__all__ = ["ENGLISH", "GERMAN", "DictationRules", "Judge", "Rules", "TurnDetector"]
