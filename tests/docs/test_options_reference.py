"""docs/options.md explains every option there is, and is up to date."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field

import pytest
from docs.options_reference import CHAPTERS, TARGET, Option, load, options_of, render

from kit.public_names import HOMES
from vivavoce.pipelines.core.field_docs import POINTER

PATHS = [path for paths in CHAPTERS.values() for path in paths]


def test_the_reference_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(), "options have changed: make reference"


@pytest.mark.parametrize("path", PATHS)
def test_every_option_is_explained_and_its_class_says_where(path: str) -> None:
    cls = load(path)
    assert [option.name for option in options_of(cls) if len(option.text.split()) < 2] == []
    assert POINTER in (cls.__doc__ or "")


def test_every_public_options_class_is_in_it() -> None:
    public = {f"{module}.{name}" for name, module in HOMES.items() if name.endswith("Options")}
    assert public - {*PATHS} == {"vivavoce.agents.replies.Options"}  # choices of a caller


def test_every_plugins_options_are_in_it() -> None:
    public = set()
    for source in (TARGET.parents[1] / "plugins").glob("*/__init__.py"):
        listed = source.read_text(encoding="utf-8").partition("__all__ =")[2]
        public |= {f"vivavoce.plugins.{source.parent.name}.{name}" for name in re.findall(r'"(\w*Options)"', listed)}
    assert public == set(CHAPTERS["Plugins"])


def test_the_index_leads_to_the_sections() -> None:
    text = TARGET.read_text(encoding="utf-8")
    headings = {re.sub(r"[^\w-]", "", title.lower()) for title in re.findall(r"^### (.+)$", text, flags=re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) == headings


LIMIT = 3


@dataclass(frozen=True, kw_only=True)
class Inherited:
    """As WatchOptions is."""

    common: str = ""
    """Of all."""


@dataclass(frozen=True, kw_only=True)
class Sample(Inherited):
    """One of each."""

    needed: int
    """Has no default."""
    named: int = LIMIT
    """A number that has a name."""
    made: Inherited = field(default_factory=lambda: Inherited(common="x"))
    """Made
    for each."""
    given: frozenset[str] = field(default=frozenset({"a"}))
    silent: dict[str, str] = field(default_factory=dict)
    kept: int = field(init=False, default=0)


def test_types_defaults_and_words_are_those_of_the_source() -> None:
    assert dataclasses.is_dataclass(Sample)
    assert list(options_of(Sample)) == [
        Option("needed", "int", "", "Has no default."),
        Option("named", "int", "3", "A number that has a name."),
        Option("made", "Inherited", "Inherited(common='x')", "Made for each."),
        Option("given", "frozenset[str]", "frozenset({'a'})", ""),
        Option("silent", "dict[str, str]", "{}", ""),
        Option("common", "str", "''", "Of all."),
    ]
