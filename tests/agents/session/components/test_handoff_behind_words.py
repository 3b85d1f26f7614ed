"""A tool that hands over behind words: the handoff begins when the words have been played, in a timer's callback."""

from __future__ import annotations

import sys

import pytest

from vivavoce.agents import Agent, AgentOverrides, function_tool
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedSTT


class Desk(Agent):
    @function_tool
    async def transfer(self) -> Agent:
        """Transfer the caller."""
        return Agent("Second.", id="second", overrides=AgentOverrides(stt=ScriptedSTT(), tts=ScriptedTTS()))


def test_an_agent_with_its_own_components_comes_behind_the_words_before_the_call() -> None:
    """Where sniffio is installed, anyio knows no event loop in a callback, unless the session's context names it."""
    pytest.importorskip("sniffio")
    assert "sniffio" in sys.modules
    step: list[str | ToolCall] = ["One moment, please.", ToolCall(call_id="call_1", name="transfer", arguments="{}")]
    harness = SessionHarness(Desk("First."), ScriptedLLM(step, "Second here."))
    harness.caller.says("the second please", 1.0, 2.0)
    harness.run(until=8.0)
    assert harness.session.agent.id == "second"
