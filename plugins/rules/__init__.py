"""Rules instead of a language model: slots, patterns and one tool, deterministic, offline."""

from vivavoce.plugins.rules.dialogue import Answer, Dialogue, Slot
from vivavoce.plugins.rules.llm import LLM
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
    "Dialogue",
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
