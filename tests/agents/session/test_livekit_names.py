"""Who writes LiveKit's names is told ours, and each of ours is there."""

from __future__ import annotations

import re

import pytest

from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.session.livekit_names import OURS
from vivavoce.agents.testing import ScriptedTTS, SessionHarness
from vivavoce.pipelines import CascadingPipeline


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


def test_any_other_name_is_no_attribute_as_ever() -> None:
    with pytest.raises(AttributeError, match=r"'AgentSession' object has no attribute 'sayy'$"):
        session().sayy  # type: ignore[attr-defined]  # noqa: B018 - it raises
    assert not hasattr(session(), "nothing_of_the_kind")
