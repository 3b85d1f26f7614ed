"""docs/events.md names every event of a session with its fields, and is up to date."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Literal

import pytest
from docs.events_reference import STATES, TARGET, EventField, explained, fields_of, places, render, summary_of

from vivavoce.agents.events import EVENT_TYPES, SessionEvent


def test_the_reference_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(), "events have changed: make reference"


def test_every_event_has_a_section() -> None:
    sections = re.findall(r"^### (\w+)$", TARGET.read_text(encoding="utf-8"), flags=re.M)
    assert sections == sorted(cls.name for cls in EVENT_TYPES) + [states.__name__ for states in STATES]


@pytest.mark.parametrize("cls", [SessionEvent, *EVENT_TYPES])
def test_every_field_of_an_event_is_explained(cls: type[SessionEvent]) -> None:
    named = {*explained(cls), *re.findall(r"`(\w+)`", summary_of(cls))}
    assert [field.name for field in fields_of(cls) if field.name not in named] == []
    assert set(explained(cls)) <= {field.name for field in fields_of(cls)}


def test_the_types_of_fields_are_where_it_says() -> None:
    assert {"TurnRecord", "CloseReport", "ChatItem", "AgentState"} <= set(places())
    for name, module in places().items():
        assert hasattr(import_module(module), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(SessionEvent):
    """From `old` on.

    Args:
        limit: One of
            two: "a" or "b".
        words: Many.
    """

    name: ClassVar[str] = "sample"
    old: str
    limit: Literal["a", "b"]
    words: int = 0


def test_fields_types_and_words_are_those_of_the_source() -> None:
    assert summary_of(Sample) == "From `old` on."
    assert list(fields_of(Sample)) == [
        EventField("old", "str", ""),
        EventField("limit", "Literal['a', 'b']", 'One of two: "a" or "b".'),
        EventField("words", "int", "Many."),
    ]
