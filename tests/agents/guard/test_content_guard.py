"""A guard, its verdicts and its judge check their arguments."""

from __future__ import annotations

import pytest

from kit.guards import Judge
from vivavoce.agents import ContentGuard, GuardVerdict, SessionOptions
from vivavoce.agents.guard import ModelJudge
from vivavoce.agents.testing import ScriptedLLM
from vivavoce.pipelines.core.errors import ConfigurationError


def test_wrong_arguments_are_named() -> None:
    for make, problem in (
        (lambda: ContentGuard(judge=3), "judge"),  # type: ignore[arg-type]
        (lambda: ContentGuard(judge=Judge(), agent=False, caller=False), "agent=True or caller=True"),
        (lambda: ContentGuard(judge=Judge(), limit=0), "limit"),
        (lambda: ContentGuard(judge=Judge(), on_failure="end"), "on_failure"),  # type: ignore[arg-type]
        (lambda: GuardVerdict("stop"), "action"),  # type: ignore[arg-type]
        (lambda: GuardVerdict("replace"), "another text"),
        (lambda: GuardVerdict("hold", "text"), "takes no text"),
        (lambda: ModelJudge(ScriptedLLM(), " "), "rules"),
        (lambda: SessionOptions(guard=Judge()), "guard must be"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError, match=problem):
            make()
