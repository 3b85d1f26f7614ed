"""examples/guard.py in virtual time, with the example's own model: the caller hears only what passed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents import ContentGuard, SessionOptions
from vivavoce.agents.testing import SessionHarness
from vivavoce.plugins import rules

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "guard.py"))
HELLO = ("assistant", "Hello! For which day?")


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        ("on friday", [("user", "on friday"), ("assistant", "We will see you on friday. Is there anything else?")]),
        ("on sunday", [("user", "on sunday"), ("assistant", "On Sunday we are closed. Is there anything else?")]),
        ("card number", [("assistant", "Please tell me no numbers of cards.")]),
    ],
)
def test_the_caller_hears_only_what_the_guard_lets_pass(said: str, rest: list[tuple[str, str]]) -> None:
    options = SessionOptions(guard=ContentGuard(judge=EXAMPLE["judge"]))
    harness = SessionHarness(EXAMPLE["Host"](), rules.LLM(EXAMPLE["TALK"]), options=options)
    harness.caller.says(said, 3.0, 4.0)
    harness.run(until=10.0)
    harness.expect_history(HELLO, *rest)
