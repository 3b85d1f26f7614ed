"""A call that goes on after a crash runs no `on_enter`: no example sets handlers there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.py"))


def handlers_set_in_on_enter(source: str) -> list[str]:
    """Return the lines of `on_enter` of agents (not of tasks, which a crash ends) that set a handler of the session."""
    agents = [
        one
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.ClassDef) and not any("Task" in ast.unparse(base) for base in one.bases)
    ]
    entering = [
        function
        for agent in agents
        for function in agent.body
        if isinstance(function, ast.AsyncFunctionDef) and function.name == "on_enter"
    ]
    lines = [ast.unparse(line) for function in entering for line in function.body]
    return [line for line in lines if "session.on(" in line or "session.on_wake_up =" in line]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_no_example_sets_a_handler_that_a_crash_would_lose(path: Path) -> None:
    assert handlers_set_in_on_enter(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("line", ["self.session.on('error', note)", "self.session.on_wake_up = self.ask"])
def test_a_handler_in_on_enter_is_found(line: str) -> None:
    source = f"class Host(Agent):\n    async def on_enter(self):\n        {line}\n"
    assert handlers_set_in_on_enter(source) == [line]
    assert handlers_set_in_on_enter(source.replace("Agent", "AgentTask[str]")) == []
