"""The public names: where each is, how it loads, and the answer to a name of an earlier version."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from kit.public_names import HOMES, PUBLIC, public
from vivavoce import agents
from vivavoce.pipelines.core.lazy import by_name

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
MOVED = by_name(agents._MOVED)
GONE = by_name(agents._GONE)
LAZY = [module for module in PUBLIC if hasattr(import_module(module), "_PLACES")]


def test_an_ordinary_agent_finds_at_most_45_names() -> None:
    assert len(PUBLIC["vivavoce.agents"].split()) <= 45


def test_each_name_has_one_place() -> None:
    extension = PUBLIC["vivavoce.agents.extension"].split()
    assert len(HOMES) == sum(len(names.split()) for names in PUBLIC.values()) - ("Extension" in extension)


@pytest.mark.parametrize("name", HOMES)
def test_each_name_is_at_its_place(name: str) -> None:
    assert public(name) is not None


@pytest.mark.parametrize("module", LAZY)
def test_a_namespace_has_these_names_and_no_others(module: str) -> None:
    found = import_module(module)
    names = list(found.__all__)
    assert names == sorted(names)
    assert names == sorted(PUBLIC[module].split())
    assert dir(found) == sorted(found.__all__)


@pytest.mark.parametrize("module", LAZY)
def test_type_checkers_read_the_places_from_which_the_names_load(module: str) -> None:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imported = {one.name: node.module for node in typed.body if isinstance(node, ast.ImportFrom) for one in node.names}
    assert imported == by_name(vars(import_module(module))["_PLACES"])


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_name_answers_with_its_place(name: str) -> None:
    home = MOVED[name]
    assert HOMES[name] == home
    with pytest.raises(ImportError, match=rf"^{name} is in {home}: from {home} import {name}"):
        exec(f"from vivavoce.agents import {name}")
    exec(f"from {home} import {name}", {})


@pytest.mark.parametrize("name", GONE)
def test_a_name_that_is_gone_answers_with_its_successor(name: str) -> None:
    with pytest.raises(ImportError, match=re.escape(f"{name} is gone, use {GONE[name]}")):
        getattr(agents, name)


def test_the_options_of_dialogues_answer_with_both_successors() -> None:
    with pytest.raises(ImportError, match=r"vivavoce\.agents\.dialogues.*vivavoce\.agents\.graphs import GraphOptions"):
        getattr(agents, "DialogueOptions")  # noqa: B009 - mypy reports the name itself


def test_a_name_that_never_was_is_an_attribute_error() -> None:
    assert not hasattr(agents, "Nothing")
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from vivavoce.agents import Nothing")


def test_the_changelog_lists_every_name_that_moved() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.+) \|$", CHANGELOG, flags=re.M)
    listed = {name: re.findall(r"`([^`]+)`", place) for names, place in rows for name in re.findall(r"\w+", names)}
    assert listed == {name: [place] for name, place in (MOVED | GONE).items()}
