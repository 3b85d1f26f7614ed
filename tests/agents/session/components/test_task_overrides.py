"""A task's own components: they are in use while it has the conversation, and those of the agent behind it return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.tasks import GIVE, ORDER, Front, GetAddress, said
from vivavoce.agents import Agent, AgentOverrides, function_tool
from vivavoce.agents.events import PipelineChanged
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""


@BOTH
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


@BOTH
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


@BOTH
@pytest.mark.parametrize("is_in_task", [False, True])
def test_a_component_that_replaced_the_agent_s_stays_when_a_task_begins_and_ends(is_in_task: bool) -> None:
    voice, new = ScriptedTTS(), ScriptedTTS()
    clerk = Clerk(voice, lambda: GetAddress([]))
    harness = SessionHarness(clerk, ScriptedLLM([ORDER], [GIVE], "Done.", delay=0.1))
    harness.caller.says("order please", 2.5, 3.5)
    harness.caller.says("high street five", 8.0, 9.0)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.say("Hello.")
        if is_in_task:
            await harness.until(6.0)
        await session.update_components(tts=new)
        await harness.until(13.0)
        await session.say("All is well.")
        await session.update_agent(Agent("Help."))
        await session.say("The pipeline's.")

    harness.run(scenario, until=18.0)
    before = ["Hello.", *(["Which address?"] if is_in_task else [])]
    after = [*([] if is_in_task else ["Which address?"]), "Done.", "All is well."]
    assert (voice.texts, new.texts, harness.tts.texts) == (before, after, ["The pipeline's."])


@BOTH
def test_a_component_that_replaced_the_task_s_ends_with_the_task() -> None:
    own, voice, new = ScriptedTTS(), ScriptedTTS(), ScriptedTTS()

    class Voiced(GetAddress):
        def __init__(self) -> None:
            AgentTask.__init__(self, "Get the address.", id="address", overrides=AgentOverrides(tts=voice))
            self.log, self.says = [], "Which address?"

    harness = SessionHarness(Clerk(own, Voiced), ScriptedLLM([ORDER], [GIVE], "Done.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 8.0, 9.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(5.0)
        await harness.session.update_components(tts=new)
        await harness.session.say("I am listening.")

    harness.run(scenario, until=13.0)
    assert (voice.texts, new.texts, own.texts) == (["Which address?"], ["I am listening."], ["Done."])


def test_a_pipeline_that_came_in_the_agent_s_time_stays_when_a_task_begins_and_ends() -> None:
    voice, other = ScriptedTTS(), ScriptedTTS()
    model = ScriptedLLM([ORDER], [GIVE], "Done.", delay=0.1)
    harness = SessionHarness(Clerk(voice, lambda: GetAddress([])), ScriptedLLM())
    stt = ScriptedSTT(["order please", "high street five"])
    harness.caller.makes_noise(2.5, 3.5)
    harness.caller.makes_noise(8.0, 9.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_pipeline(CascadingPipeline(stt=stt, llm=model, tts=other, vad=ScriptedVAD()))

    harness.run(scenario, until=13.0)
    assert (voice.texts, other.texts) == ([], ["Which address?", "Done."])


def test_a_task_that_does_not_fit_is_refused_before_anything_is_said() -> None:
    needy = ScriptedSTT(capabilities=STTCapabilities(needs_flush=True))

    class Unfit(GetAddress):
        def __init__(self) -> None:
            AgentTask.__init__(self, "Ask.", id="unfit", overrides=AgentOverrides(stt=needy))
            self.log, self.says = [], "Which address?"

    harness = SessionHarness(
        Agent("Help."), pipeline=CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS())
    )

    async def scenario(harness: SessionHarness) -> None:
        task = Unfit()
        with pytest.raises(CapabilityError, match="give CascadingPipeline a vad"):
            await harness.session.run_task(task)
        assert task.outcome is None

    harness.run(scenario, until=3.0)
    assert harness.messages == []
