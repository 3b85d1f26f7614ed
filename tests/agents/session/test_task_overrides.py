"""A task's own components: they are in use while it has the conversation, and those of the agent behind it return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.tasks import GIVE, ORDER, Front, GetAddress, said
from vivavoce.agents import Agent, AgentOverrides, AgentTask, function_tool
from vivavoce.agents.events import PipelineChanged
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext


def test_a_task_speaks_with_its_own_voice_and_the_agent_behind_it_with_that_of_the_pipeline() -> None:
    voice = ScriptedTTS()

    class Voiced(GetAddress):
        def __init__(self) -> None:
            AgentTask.__init__(self, "Get the address.", id="address", overrides=AgentOverrides(tts=voice))
            self.log, self.says = [], "Which address?"

    harness = SessionHarness(Front([], Voiced), ScriptedLLM([ORDER], [GIVE], "It is ordered.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 5.0, 6.0)
    harness.run(until=12.0)
    assert said(harness) == ["Which address?", "It is ordered."]
    assert (voice.texts, harness.tts.texts) == (["Which address?"], ["It is ordered."])


class Clerk(Agent):
    """An agent with a voice of its own, whose `order` tool awaits a task."""

    def __init__(self, voice: ScriptedTTS, make: Callable[[], AgentTask[Any]]) -> None:
        super().__init__("You are the clerk.", id="clerk", overrides=AgentOverrides(tts=voice))
        self.make = make

    @function_tool
    async def order(self) -> str:
        """Order something."""
        return str(await self.make())


def test_a_task_keeps_the_components_of_the_agent_behind_it() -> None:
    voice = ScriptedTTS()
    harness = SessionHarness(Clerk(voice, lambda: GetAddress([])), ScriptedLLM([ORDER], [GIVE], "Done.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 5.0, 6.0)
    harness.run(until=12.0)
    assert (voice.texts, harness.tts.texts) == (["Which address?", "Done."], [])
    assert harness.recording.of(PipelineChanged) == []


def test_a_task_in_a_task_keeps_the_components_of_all_agents_behind_it() -> None:
    voice, model = ScriptedTTS(), ScriptedLLM([GIVE], "Model of the outer task.", delay=0.1)

    class Outer(AgentTask[str]):
        def __init__(self) -> None:
            super().__init__("Ask.", id="outer", overrides=AgentOverrides(llm=model))

        async def on_enter(self) -> None:
            await GetAddress([])
            await self.session.say("Thank you.")
            self.complete("here")

    harness = SessionHarness(Clerk(voice, Outer), ScriptedLLM([ORDER], "Done.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 5.0, 6.0)
    harness.run(until=14.0)
    assert (voice.texts, harness.tts.texts) == (["Which address?", "Thank you.", "Done."], [])
    assert len(model.requests) == 1


def test_a_task_takes_no_context_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match=r"TaskOptions\(history="):
        _ = AgentTask[str]("Ask.", result_type=str, overrides=AgentOverrides(context=lambda context: ChatContext()))
