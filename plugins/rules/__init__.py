"""Rules instead of a language model: slots, patterns and one tool, deterministic, offline."""

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
