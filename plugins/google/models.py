"""Models: the facts that a model's name tells: its generation, the thinking settings it takes, signatures.

Sources: https://ai.google.dev/gemini-api/docs/thinking, …/thought-signatures, …/generate-content/latest-model
(Gemini 4: low, medium, high); `llm.py` of livekit-plugins-google 1.8.9;
https://github.com/dzivkovi/video-intel/releases/tag/v2.7.1 (3.7 Flash and 3.8 Flash refuse `minimal`). Not tried
against the live server.
"""

from __future__ import annotations

import re
from typing import Any

from vivavoce.pipelines.core.errors import ConfigurationError

GENERATION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
NEWEST = (99, 0)
"""An alias without a number, such as `gemini-flash-latest`."""

SHORT = "short"
NO_MINIMAL = (3, 7)
"""From this generation on Flash models think at `low` at least."""

MIN_PRO_BUDGET = 128
"""Tokens of the smallest budget of Gemini 2.5 Pro, which cannot answer without thinking."""


def generation_of(model: str) -> tuple[int, int] | None:
    """Return the generation of a model, such as (3, 8); None: it is no Gemini, or its name does not tell."""
    name = model.rpartition("/")[2]
    found = GENERATION.match(name)
    if found is not None:
        return int(found[1]), int(found[2] or 0)
    return NEWEST if name.startswith("gemini-") else None


def wants_signatures(model: str) -> bool:
    """Return whether the server refuses a call in the history without its thought signature."""
    generation = generation_of(model)
    return generation is not None and generation >= (3, 0)


def thinking_config(thinking: str | int | None, model: str) -> dict[str, Any]:
    """Return the `thinkingConfig` of a request; empty: the server decides.

    Raises:
        ConfigurationError: The model takes a level and got a budget, or the other way round.
    """
    generation = generation_of(model)
    if thinking is None:
        return {}
    if thinking == SHORT:
        return _least_thinking(model.rpartition("/")[2], generation)
    if isinstance(thinking, int):
        if generation is not None and generation >= (3, 0):
            raise ConfigurationError(f"{model!r} takes a level of thinking, got a budget: {thinking!r}; give 'low'")
        return {"thinkingBudget": thinking}
    if generation is not None and generation < (3, 0):
        raise ConfigurationError(
            f"{model!r} takes a budget of thinking in tokens, got a level: {thinking!r}; give a number, 0 for none"
        )
    return {"thinkingLevel": thinking.upper()}


def _least_thinking(name: str, generation: tuple[int, int] | None) -> dict[str, Any]:
    if generation is None or generation < (2, 5):
        return {}
    if generation < (3, 0):
        return {"thinkingBudget": MIN_PRO_BUDGET if "pro" in name else 0}
    is_lite = "flash-lite" in name and generation < (4, 0)
    is_old_flash = "flash" in name and generation < NO_MINIMAL
    return {"thinkingLevel": "MINIMAL" if is_lite or is_old_flash else "LOW"}
