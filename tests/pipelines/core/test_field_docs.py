"""`help()` of an options class shows each option with its text, which is written once, below the field."""

from __future__ import annotations

import pydoc
from dataclasses import dataclass

import pytest

from vivavoce import agents, pipelines
from vivavoce.agents.tasks import TaskOptions
from vivavoce.pipelines.core.field_docs import FieldDocs, with_field_docs


@pytest.mark.parametrize(
    ("cls", "line"),
    [
        (agents.WakeUp, "    backoff: Factor from each wait to the next."),
        (TaskOptions, "    max_turns: Answered turns of the caller after which"),
        (pipelines.CascadingOptions, "    llm_retry: Tries of a model step, until its first word or tool call."),
        (pipelines.CascadingOptions, "    stt_reconnect: "),  # inherited
    ],
)
def test_help_shows_the_options(cls: type, line: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(cls)).replace(" |", "   ")
    assert line.strip() in shown


def test_a_second_look_at_the_name_changes_nothing() -> None:
    before = agents.WakeUp.__doc__
    assert agents.WakeUp.__doc__ == before == agents.WakeUp(after=1.0).__doc__


def test_only_options_are_changed() -> None:
    text = agents.Agent.__doc__
    assert with_field_docs(agents.Agent) is agents.Agent
    assert with_field_docs(text) is text
    assert agents.Agent.__doc__ == text


def test_without_a_source_the_docstring_stays() -> None:
    made: dict[str, type] = {}
    exec("class Sourceless:\n    field: int = 0\n", made)
    cls: type = dataclass(made["Sourceless"])
    assert FieldDocs("Some options.").__get__(None, cls) == "Some options."
