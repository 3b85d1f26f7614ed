"""The facts about the rules that stand in for a language model."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.rules.llm import LLM
from vivavoce.plugins.rules.slot_filling import Answer, SlotFilling

PROVIDERS = (
    Provider(
        name="rules",
        title="Rules",
        docs="",
        parts=(
            Part(
                kind="llm",
                make=LLM,
                arguments="TALK",
                sample={"filling": SlotFilling(answers=(Answer("hello", "Hello!"),))},
                note="It is no language model: it fills slots from free English sentences and calls one tool.",
            ),
        ),
    ),
)
