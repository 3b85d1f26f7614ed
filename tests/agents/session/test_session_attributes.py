"""Attributes of a session: an unknown one is an AttributeError, and only three can be set by an application."""

from __future__ import annotations

import inspect

import pytest

from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.testing import ScriptedTTS
from vivavoce.pipelines import CascadingPipeline


def session() -> AgentSession[object]:
    return AgentSession[object](Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))


def test_a_misspelt_attribute_can_be_neither_read_nor_set() -> None:
    with pytest.raises(AttributeError, match=r"^'AgentSession' object has no attribute 'sayy'$"):
        session().sayy  # type: ignore[attr-defined]  # noqa: B018 - it raises
    with pytest.raises(AttributeError, match=r"object has no attribute 'on_wakeup'; did you mean 'on_wake_up'\?$"):
        session().on_wakeup = print
    with pytest.raises(AttributeError, match=r"; did you mean session.on\('user_transcript', …\)\?$"):
        session().on_user_transcripts = print
    with pytest.raises(AttributeError, match=r"^'AgentSession' object has no attribute 'zzz'$"):
        session().zzz = print
    assert not hasattr(session(), "nothing_of_the_kind")


def test_what_is_the_sessions_own_cannot_be_set_and_userdata_can() -> None:
    made = session()
    for name in ("history", "id", "agent", "input"):
        with pytest.raises(AttributeError, match=name):
            setattr(made, name, None)
    made.userdata = {"table": 4}
    assert made.userdata == {"table": 4}


def test_a_session_class_of_one_s_own_may_have_attributes_of_its_own() -> None:
    class Own(AgentSession[None]):
        def __init__(self) -> None:
            super().__init__(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))
            self.tables = 4

    assert Own().tables == 4


def test_a_misspelt_argument_is_refused_and_the_signature_is_the_sessions_own() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'optoins'"):
        AgentSession(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()), optoins=None)  # type: ignore[call-arg]
    assert list(inspect.signature(AgentSession).parameters)[:2] == ["agent", "pipeline"]


def test_help_of_the_class_describes_every_member_of_a_session() -> None:
    members = [name for name in dir(session()) if not name.startswith("_")]
    assert {"history", "input", "userdata"} <= set(members)
    assert [name for name in members if name not in dir(AgentSession)] == []
    assert [name for name in members if not inspect.getdoc(getattr(AgentSession, name))] == []
