"""Names of earlier versions: an error names the name of today, and there is no alias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vivavoce.agents import Agent, AgentSession, events
from vivavoce.agents.dialogues.options import DialogueOptions
from vivavoce.agents.memory.options import MemoryOptions
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.session.options import SessionOptions
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.old_names import old_members
from vivavoce.plugins import rules

BOTH = r"SessionOptions\(graph=GraphOptions\(…\), dialogues=DialogueOptions\(…\)\) now"
MEMBERS = [
    ("change_pipeline", "update_pipeline"),
    ("change_component", "update_components"),
    ("set_conversation_flow", "update_flow"),
    ("dialogue", "graph"),
]
EXPORTS = [(events, "DialogueMoved", "GraphMoved"), (rules, "Dialogue", "SlotFilling")]


@pytest.mark.parametrize(("old", "new"), MEMBERS)
def test_an_old_member_of_a_session_answers_with_its_new_name(old: str, new: str) -> None:
    session = AgentSession(Agent("Help."))
    with pytest.raises(AttributeError, match=f"^AgentSession.{old} is {new} now$"):
        getattr(session, old)
    assert not hasattr(session, old)
    assert hasattr(AgentSession, new)


def test_a_member_that_never_was_has_the_error_of_python() -> None:
    with pytest.raises(AttributeError, match="^'AgentSession' object has no attribute 'never'"):
        _ = AgentSession(Agent("Help.")).never  # type: ignore[attr-defined]  # that is the test


def test_a_property_that_raises_keeps_its_own_error() -> None:
    class Holder:
        __getattr__ = old_members(old="new")

        @property
        def broken(self) -> str:
            raise AttributeError("the cause")

    with pytest.raises(AttributeError, match="^the cause$"):
        _ = Holder().broken


def test_the_old_state_of_a_turn_record_answers_with_its_new_name() -> None:
    record = TurnRecord(turn_id="1", outcome="completed", interrupted=False, e2e_latency=None)
    with pytest.raises(AttributeError, match="^TurnRecord.dialogue_state is graph_state now$"):
        _ = record.dialogue_state  # type: ignore[attr-defined]  # graph_state


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: SessionOptions(dialogue=None), f"^SessionOptions.dialogue=….* is {BOTH}$"),  # type: ignore[call-arg]
        (lambda: DialogueOptions(graph=None), f"^DialogueOptions.graph=….* is {BOTH}$"),  # type: ignore[call-arg]
        (
            lambda: SessionOptions(history_sink=None),  # type: ignore[call-arg]
            r"^SessionOptions.history_sink=….* is SessionOptions\(memory=MemoryOptions\(store=…\)\) now$",
        ),
        (lambda: MemoryOptions(budget=None), r"^MemoryOptions.budget=….* is SessionOptions\(budget=…\) now$"),  # type: ignore[call-arg]
    ],
)
def test_an_old_argument_of_options_answers_with_its_new_place(make: Callable[[], Any], answer: str) -> None:
    with pytest.raises(ConfigurationError, match=answer):
        make()


def test_other_unknown_arguments_have_the_error_of_python() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'never'"):
        SessionOptions(never=1)  # type: ignore[call-arg]  # that is the test


def test_an_old_event_answers_with_its_new_name() -> None:
    with pytest.raises(ConfigurationError, match="^the event 'dialogue_moved' is 'graph_moved' now$"):
        AgentSession(Agent("Help.")).on("dialogue_moved", print)  # graph_moved


@pytest.mark.parametrize(("module", "old", "new"), EXPORTS)
def test_an_old_export_answers_an_import_with_its_new_name(module: Any, old: str, new: str) -> None:
    with pytest.raises(ImportError, match=rf"^{module.__name__}\.{old} is {new} now$"):
        exec(f"from {module.__name__} import {old}")  # noqa: S102 - an import is what is tested
    assert hasattr(module, new)
    with pytest.raises(AttributeError, match="has no attribute 'never'"):
        _ = module.never
