"""TaskOptions: the limits of a task, and the place of its dialogue in the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice, check_number, check_whole

TaskHistory = Literal["keep", "summary", "leave_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """How long an `AgentTask` may take, and what its dialogue leaves in the history.

    Each option: docs/options.md.
    """

    max_seconds: float | None = 600.0
    """Seconds from when the task has the conversation; then it ends as `out_of_time`. Tasks inside it count."""
    max_turns: int | None = None
    """Answered turns of the caller after which a task without a result ends as `out_of_turns`. Only its own count."""
    history: TaskHistory = "keep"
    """After its end: `keep` its dialogue in the history, replace it by the text of `summary()`, or leave it out."""

    def __post_init__(self) -> None:
        check_number("max_seconds", self.max_seconds, above=0, unit="s", or_none=True)
        check_whole("max_turns", self.max_turns, at_least=1, or_none=True)
        check_choice("history", self.history, get_args(TaskHistory))
