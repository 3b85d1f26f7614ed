"""MachineDetection: how a session finds out who has answered its call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from vivavoce.agents.states import AnsweredBy
from vivavoce.pipelines.core.checks import check_instance, check_items, check_number, shown
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.base import LLM

KINDS: tuple[AnsweredBy, ...] = get_args(AnsweredBy)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDetection:
    """Find out who has answered a call out, before the agent speaks; times in seconds.

    Each option: docs/options.md.
    """

    limit: float = 20.0
    """How long the agent's speech waits for the verdict from the answer on; then the verdict is drawn from what there
    is: `unknown` at worst."""
    no_speech: float = 5.0
    """Silence from the answer on that ends the wait: `unknown`. It does not count for `answered_by(again=True)`."""
    max_greeting: float = 2.5
    """The longest greeting of a human, with its pauses; a longer one without a known phrase is a machine's."""
    answers: tuple[AnsweredBy, ...] = ("human", "unknown")
    """The kinds whose words are turns that the agent answers. Words of the others get no answer: the application
    acts."""
    llm: LLM | None = field(default=None, repr=False)
    """A model that judges the words of a greeting, in place of phrases and length; None: none. Whoever made it closes
    it; its tokens count as the session's."""
    llm_limit: float = 3.0
    """How long the model may take, within `limit`; then phrases and length count."""

    def __post_init__(self) -> None:
        for name in ("limit", "no_speech", "max_greeting", "llm_limit"):
            check_number(name, getattr(self, name), above=0, unit="s")
        kinds = check_items("answers", self.answers, str, remedy="such as ('human', 'unknown')")
        if wrong := [kind for kind in kinds if kind not in KINDS]:
            raise ConfigurationError(f"answers must be of {', '.join(KINDS)}, got {shown(wrong[0])}")
        object.__setattr__(self, "answers", kinds)
        check_instance("llm", self.llm, LLM, or_none=True)
