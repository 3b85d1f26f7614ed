"""Rules instead of a language model: slots, patterns and one tool, deterministic, offline. English sentences.

The parsers read free sentences as a recogniser writes them: capitals and punctuation do not matter, numbers come in
words or digits, and words that sound like a number ("for people") are mended where nothing else fits. A correction in
the sentence counts ("for four, no, five"), "not Friday" is no value and takes Friday back, and alternatives ("seven or
eight") are no value: the question comes again. A number alone belongs to the slot of the open question; if nobody can
know its slot ("make it eight"), the agent asks what to change.

The parsers are our own, about 0.3 ms for a sentence. On 18 spoken sentences, dateparser, parsedatetime, ctparse and
timefhuman understood 5, 3, 9 and 1 ("half past seven" and "at eight" are none of theirs); recognizers-text understood
16, but takes 1.8 s to load and 28 ms (up to 154 ms) a sentence, and is an alpha that fails with today's `emoji`.
word2number reads "four people at half past seven" as 11. None knows corrections, or numbers of people.
"""

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names
from vivavoce.plugins.rules.clock import times
from vivavoce.plugins.rules.dates import days
from vivavoce.plugins.rules.llm import LLM
from vivavoce.plugins.rules.patterns import choice, pattern
from vivavoce.plugins.rules.people import party_sizes
from vivavoce.plugins.rules.person import names
from vivavoce.plugins.rules.slot_filling import Answer, Slot, SlotFilling
from vivavoce.plugins.rules.values import Mention, Parser, Value, in_words, time_in_words

__all__ = [
    "LLM",
    "Answer",
    "SlotFilling",
    "Mention",
    "Parser",
    "Slot",
    "Value",
    "choice",
    "days",
    "in_words",
    "names",
    "party_sizes",
    "pattern",
    "time_in_words",
    "times",
]

if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, {}, moved={"Dialogue": f"{__name__}.Dialogue is SlotFilling now"})
