"""docs/conversation-graphs.md: its snippet runs in a session, and every name in its tables exists."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from kit.public_names import HOMES
from vivavoce.agents import Agent, AgentSession, testing
from vivavoce.agents.graphs import State
from vivavoce.agents.graphs.runtime.session_graph import SessionGraph
from vivavoce.agents.testing import ScriptedLLM, SessionHarness

TEXT = (Path(__file__).parents[2] / "docs" / "conversation-graphs.md").read_text(encoding="utf-8")


def test_the_graph_shown_runs_as_the_page_says() -> None:
    shown: dict[str, Any] = {}
    (snippet,) = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S)
    exec(snippet, shown)
    llm = ScriptedLLM("At what time?")
    harness = SessionHarness(Agent("Be brief."), llm, options=shown["options"])
    harness.caller.says("a table for two on friday", 4.0, 6.0)
    harness.run(until=9.0)

    (request,) = llm.requests
    assert request.instructions == "Be brief.\n\nAsk what is missing."
    assert [tool.name for tool in request.tools] == ["free_tables"]
    assert harness.session.graph.intent is not None
    assert harness.session.graph.intent.slots == shown["Table"](people="two", day="friday")
    assert harness.messages[0] == ("assistant", "Hello, a table for when?")
    assert harness.messages[-1] == ("assistant", "At what time?")


def transitions() -> list[str]:
    """Return the calls in the first column of the table of transitions."""
    (rows,) = re.findall(r"^\| transition \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, flags=re.M)
    return [call for row in rows.splitlines() for call in re.findall(r"`([^`]+)`", row.split("|")[1])]


@pytest.mark.parametrize("call", transitions())
def test_every_transition_of_the_table_exists_with_these_arguments(call: str) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    inspect.signature(getattr(State, node.func.id)).bind(State, *node.args)


def test_the_table_has_every_transition_and_the_text_names_what_there_is() -> None:
    told = {call.partition("(")[0] for call in transitions()} | {"when_intent_matched", "when_no_intent_matched"}
    public = {name for name in vars(State) if name.startswith("when_") or name in ("after", "go_to")}
    assert told == public
    inline = re.findall(r"`([^`\n]+)`", TEXT)
    classes = {name for code in inline for name in re.findall(r"(?<!\.)\b[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+\b", code)}
    assert {"ModelIntents", "PatternIntents", "GraphEvent"} <= classes
    assert classes - {"ConfigurationError"} <= {*HOMES, *testing.__all__}
    members = [one for code in inline for one in re.findall(r"\bsession\.((?:graph\.)?\w+)", code)]
    assert members
    for member in members:
        owner, _, name = member.rpartition(".")
        inspect.getattr_static(SessionGraph if owner else AgentSession, name)
