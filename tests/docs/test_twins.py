"""docs/twins.md: its tests pass, and each vendor's twin has one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from vivavoce.agents.cli.catalogue.providers import find_plugins

TEXT = (Path(__file__).parents[2] / "docs" / "twins.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S)


def functions_of(snippet: str) -> dict[str, Callable[[], None]]:
    made: dict[str, Callable[[], None]] = {"__name__": "twins"}  # type: ignore[dict-item]
    exec(compile(snippet, "docs/twins.md", "exec", dont_inherit=True), made)
    return {name: test for name, test in made.items() if name.startswith("test_")}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: re.findall(r"def (test_\w+)", snippet)[0])
def test_a_test_of_the_page_passes(snippet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    tests = functions_of(snippet)
    assert tests
    for test in tests.values():
        test()


def test_each_twin_is_in_the_table_and_in_a_section_of_its_own() -> None:
    (table,) = re.findall(r"^\| vendor \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, flags=re.M)
    for twin in {each.twin for each in find_plugins()[0] if each.twin}:
        assert f"`{twin}." in table
        assert any(f"from {twin} import" in section for section in TEXT.split("\n## ")[2:])
