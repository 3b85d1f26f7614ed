"""Rules instead of a language model: slots, patterns and one tool, deterministic, offline."""

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names
from vivavoce.plugins.rules.llm import LLM
from vivavoce.plugins.rules.slot_filling import Answer, Slot, SlotFilling
from vivavoce.plugins.rules.values import (
    Mention,
    Parser,
    Value,
    choice,
    days,
    in_words,
    party_sizes,
    pattern,
    time_in_words,
    times,
)

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
    "party_sizes",
    "pattern",
    "time_in_words",
    "times",
]

if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, {}, moved={"Dialogue": f"{__name__}.Dialogue is SlotFilling now"})
