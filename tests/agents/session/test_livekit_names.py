"""Who writes LiveKit's names is told ours, and each of ours is there."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from vivavoce import agents, pipelines
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.session.livekit_names import ARGUMENTS, OURS
from vivavoce.agents.testing import ScriptedTTS, SessionHarness
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel


def session() -> AgentSession[None]:
    return AgentSession[None](Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))


@pytest.mark.parametrize("name", OURS)
def test_a_name_of_livekit_s_is_answered_with_ours(name: str) -> None:
    with pytest.raises(
        AttributeError, match=re.escape(f"no attribute {name!r}; LiveKit's {name} is {OURS[name]} here")
    ):
        getattr(session(), name)
    owner: object = SessionHarness if "SessionHarness" in OURS[name] else session()
    for part in re.findall(r"[a-z_]+", OURS[name].partition("(")[0])[:2]:
        assert hasattr(owner, part)
        owner = getattr(owner, part)


def test_any_other_name_is_no_attribute_and_the_nearest_one_is_named() -> None:
    with pytest.raises(AttributeError, match=r"'AgentSession' object has no attribute 'sayy'; did you mean 'say'\?$"):
        session().sayy  # type: ignore[attr-defined]  # noqa: B018 - it raises
    with pytest.raises(AttributeError, match=r"has no attribute 'on_wakeup'; did you mean 'on_wake_up'\?$"):
        session().on_wakeup = print
    with pytest.raises(AttributeError, match=r"has no attribute 'frobnicate'$"):
        session().frobnicate = 1
    assert not hasattr(session(), "nothing_of_the_kind")


def test_what_is_the_sessions_own_cannot_be_set_and_userdata_can() -> None:
    made = AgentSession[object](Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))
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


def _check(call: ast.expr) -> None:
    """Each class named is public, and takes what it is given."""
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    owner = getattr(agents, call.func.id, None) or getattr(pipelines, call.func.id)
    for keyword in call.keywords:
        assert keyword.arg in inspect.signature(owner).parameters
        if isinstance(keyword.value, ast.Call):
            _check(keyword.value)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_of_livekit_s_is_answered_with_where_it_goes_here(name: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"LiveKit's {name} is {ARGUMENTS[name]} here")):
        AgentSession(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()), **{name: 1})  # type: ignore[arg-type]
    _check(ast.parse(f"AgentSession({ARGUMENTS[name].replace('…', '...')})", mode="eval").body)


def test_a_session_made_of_components_as_livekit_s_is_answered_with_the_pipeline() -> None:
    wanted = "LiveKit's stt, llm, tts go into pipeline=CascadingPipeline(stt=…, llm=…, tts=…) here"
    with pytest.raises(TypeError, match=re.escape(wanted)):
        AgentSession(stt="deepgram/nova-3", llm="openai/gpt-5", tts=ScriptedTTS())  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=re.escape("go into pipeline=RealtimePipeline(model=…, vad=…) here")):
        AgentSession(llm=ScriptedRealtimeModel(), vad=None)  # type: ignore[call-arg]
    for pipeline, names in (
        (CascadingPipeline, ("stt", "llm", "tts", "vad")),
        (RealtimePipeline, ("model", "tts", "vad")),
    ):
        assert set(names) <= set(inspect.signature(pipeline).parameters)


def test_a_misspelt_argument_is_refused_as_ever_and_the_signature_is_the_sessions_own() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'optoins'"):
        AgentSession(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()), optoins=None)  # type: ignore[call-arg]
    assert list(inspect.signature(AgentSession).parameters)[:2] == ["agent", "pipeline"]
