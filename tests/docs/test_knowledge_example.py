"""examples/knowledge.py in virtual time, with a model by script: it gets the passages of each question."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents.testing import ScriptedLLM, run_virtual
from vivavoce.plugins import openai

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "knowledge.py"))


def test_each_question_is_answered_from_its_passage_and_one_without_is_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "menu.txt").write_text("We sell stamps.")
    llm = ScriptedLLM("No, we are closed.", "A week.", "That is not in our documents.")
    monkeypatch.setattr(openai, "LLM", lambda: llm)
    run_virtual(EXAMPLE["main"]([str(tmp_path / "menu.txt")]))
    assert capsys.readouterr().out.splitlines() == [
        "caller: Are you open on Sundays?",
        "agent: No, we are closed.",
        "caller: How long does a refund take?",
        "agent: A week.",
        "caller: Do you repair violins?",
        "to be written: Do you repair violins?",
        "agent: That is not in our documents.",
    ]
    first, second, third = (request.extra_instructions for request in llm.requests)
    assert "[1] opening hours\n" in first
    assert "[1] returns\n" in second
    assert third == ""
