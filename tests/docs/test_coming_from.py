"""Every name of ours in docs/coming-from.md exists, with the arguments that the page gives."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kit.public_names import PUBLIC, public
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.budget import Budget
from vivavoce.agents.dialogues import Dialogue, DialogueContext, Edge
from vivavoce.agents.graphs import State, StateGraph
from vivavoce.agents.graphs.runtime.session_graph import SessionGraph
from vivavoce.agents.knowledge import SessionKnowledge
from vivavoce.agents.memory import SessionMemory, SessionStore, Stream
from vivavoce.agents.peers import AgentRegistry, Peer, SessionPeers

TEXT = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROOTS: dict[str, type] = {
    "agent": Agent,
    "ctx": DialogueContext,
    "dialogue": Dialogue,
    "edge": Edge,
    "graph": StateGraph,
    "memory": SessionMemory,
    "peer": Peer,
    "registry": AgentRegistry,
    "session": AgentSession,
    "state": State,
    "store": SessionStore,
    "stream": Stream,
}
"""The objects that the page names, by their classes."""
PLUGINS = ("anthropic", "assemblyai", "azure", "cartesia", "deepgram", "elevenlabs", "google", "openai", "silero")
TYPES: dict[str, type] = {
    "Budget": Budget,
    "SessionGraph": SessionGraph,
    "SessionKnowledge": SessionKnowledge,
    "SessionPeers": SessionPeers,
}
"""Classes that annotations name for type checkers only."""


def shown() -> list[str]:
    """Return the code in the columns "here" and "different", and in the text.

    The table of sessions has its column "here" first, and stands for any arguments: `test_readme.py` reads it.
    """
    code = []
    for line in re.sub(r"^## [^\n]*: the session\n.*?(?=^## )", "", TEXT, flags=re.M | re.S).splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        ours = " ".join(cells[2:]) if line.startswith("| ") else line
        code += re.findall(r"`([^`]+)`", ours)
    names = tuple(f"{root}." for root in (*ROOTS, *PLUGINS))
    return sorted({one for one in code if one.startswith(names) or re.match(r"[A-Z]\w+\(|[A-Z]\w+\.\w+\(", one)})


def resolve(node: ast.expr) -> Any:
    """Return the class of an expression's value, or the function or class that it names."""
    if isinstance(node, ast.Name) and node.id in PLUGINS:
        return import_module(f"vivavoce.plugins.{node.id}")
    if isinstance(node, ast.Name):
        found = ROOTS.get(node.id) or public(node.id)
        assert found is not None, f"{node.id} is no object of the page"
        return found
    if isinstance(node, ast.Attribute):
        found = inspect.getattr_static(resolve(node.value), node.attr)
        if isinstance(found, property):
            return _returned(inspect.unwrap(found.fget)) if found.fget is not None else None
        return found.__func__ if isinstance(found, classmethod) else found
    assert isinstance(node, ast.Call), ast.dump(node)
    called = resolve(node.func)
    for given in [*node.args, *(keyword.value for keyword in node.keywords)]:
        if isinstance(given, ast.Call):
            resolve(given)
    is_method = isinstance(node.func, ast.Attribute) and not isinstance(called, type)
    positional = [None] * (len(node.args) + is_method)
    inspect.signature(called).bind(*positional, **{str(keyword.arg): None for keyword in node.keywords})
    return called if isinstance(called, type) else _returned(called)


def _returned(function: Callable[..., Any]) -> Any:
    """Return the class of the result; None if it is no class that the page goes on from."""
    name = str(function.__annotations__.get("return")).removesuffix(" | None")
    return function.__globals__.get(name) or TYPES.get(name)


@pytest.mark.parametrize("code", shown())
def test_every_name_of_ours_exists(code: str) -> None:
    resolve(ast.parse(code, mode="eval").body)


def test_the_page_shows_calls_of_each_object() -> None:
    found = shown()
    assert len(found) > 40
    assert {one.partition(".")[0].partition("(")[0] for one in found} >= {
        "session",
        "dialogue",
        "graph",
        "state",
        "memory",
        "stream",
        "SessionMemory",
        *PLUGINS,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "memory.data.put(key)",
        "memory.data.set(key)",
        "session.say(text, loud=True)",
        "deepgram.STT(keyterm=1)",
        "silero.load()",
    ],
)
def test_a_name_or_an_argument_that_does_not_exist_is_found(wrong: str) -> None:
    with pytest.raises((AttributeError, TypeError)):
        resolve(ast.parse(wrong, mode="eval").body)


def test_the_page_lists_every_namespace_with_its_names() -> None:
    rows = re.findall(r"^\| `(vivavoce\.[\w.]+)` \| (.+) \|$", TEXT, flags=re.M)
    listed = {module: re.findall(r"`(\w+)`", names) for module, names in rows}
    assert listed == {
        module: names.split() for module, names in PUBLIC.items() if module.startswith("vivavoce.agents.")
    }
