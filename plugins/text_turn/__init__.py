"""A turn detector without weights: rules on the words of the turn, for English and German.

    CascadingPipeline(..., turn_detector=text_turn.TurnDetector(language="de"))

It knows turns that cannot be over: they end with an article, conjunction, preposition (`a table for`), possessive, with
a filler (`um`), the beginning of a phrase (`I'd like`, `my name is`), a clause that wants another (`if I come on
Friday`), a request to wait (`hold on`), or with a number, a spelling or an e-mail address that is still going on: too
few digits for what the agent asked for, letters that do not yet spell the name said before. Everything else is whole.
So what it misses costs nothing against having no detector, and what it takes wrongly for unfinished costs the caller
`endpointing.max_delay`; therefore it is careful with the latter.

Hits and misses on 185 turns are in `EXAMPLES.md` beside this file, checked by a test. On the 45 of them that were
written after the rules: 22 of 24 whole turns were judged whole, 12 of 21 unfinished ones unfinished. It hears no
intonation: a caller who stops after `I'd like a table`, wanting to add `for two`, is whole to it; that is what
`smart_turn` is for. It needs neither punctuation nor capitals; a question mark counts. A verdict costs 0.1 ms, with
thousands of words 3 ms.

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
