"""The conversation on the way to another agent: kept, filtered or summarised; async windows."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    AgentOverrides,
    ChatContext,
    ContextWindow,
    SessionOptions,
    SpeechLimits,
    function_tool,
)
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines import SummaryWindow
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import HANG, ScriptedVAD
from vivavoce.pipelines.testing.script import wait

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""


async def summarise(context: ChatContext) -> str:
    return f"{len(context)} items"


async def hangs(context: ChatContext) -> ChatContext:
    await wait(HANG)
    return context


@function_tool
async def look_up() -> str:
    """Look something up."""
    return "found".ljust(18_000, ".")


LOOK_UP = ToolCall(call_id="c1", name="look_up", arguments="{}")


def asked(llm: ScriptedLLM, number: int) -> list[str]:
    return [message.content for message in llm.requests[number].context.messages()]


def handing_over(context: Any, *, options: SessionOptions | None = None) -> tuple[SessionHarness, list[Agent]]:
    """Two turns, then a second agent with that view of the context, two turns more, and the first agent again."""
    agents = [Agent("First.", id="first"), Agent("Second.", id="second", overrides=AgentOverrides(context=context))]
    harness = SessionHarness(agents[0], ScriptedLLM("A.", "B.", "C.", "D.", "E.", delay=0.1), options=options)
    for number, at in enumerate((0.5, 3.0, 8.0, 11.0, 15.0), 1):
        harness.caller.says(f"turn {number}", at, at + 0.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        await harness.session.update_agent(agents[1])
        await harness.until(13.5)
        await harness.session.update_agent(agents[0])

    harness.run(scenario, until=18.0)
    return harness, agents


WHOLE = ["turn 1", "A.", "turn 2", "B.", "turn 3", "C.", "turn 4", "D.", "turn 5"]


@BOTH
def test_an_agent_gets_the_whole_conversation_by_default() -> None:
    harness, _ = handing_over(None)
    assert asked(harness.llm, 2) == WHOLE[:5]


@BOTH
def test_an_agent_gets_the_filtered_conversation_and_all_that_comes_in_its_time() -> None:
    harness, _ = handing_over(ContextWindow(max_items=1))
    assert asked(harness.llm, 2) == ["B.", "turn 3"]
    assert asked(harness.llm, 3) == ["B.", "turn 3", "C.", "turn 4"]
    assert asked(harness.llm, 4) == WHOLE  # the first agent gets all of it back
    assert [message.content for message in harness.session.history.messages()] == [*WHOLE, "E."]


@BOTH
def test_an_agent_may_begin_with_nothing() -> None:
    harness, _ = handing_over(lambda context: ChatContext())
    assert asked(harness.llm, 2) == ["turn 3"]


@BOTH
def test_an_agent_gets_a_summary_by_an_async_policy() -> None:
    harness, _ = handing_over(SummaryWindow(by=summarise, keep_items=1))
    first, *rest = asked(harness.llm, 2)
    assert "3 items" in first
    assert rest == ["B.", "turn 3"]


def test_a_message_that_is_removed_later_leaves_the_view_too() -> None:
    agents = [
        Agent("First.", id="first"),
        Agent("Second.", overrides=AgentOverrides(context=ContextWindow(max_items=2))),
    ]
    harness = SessionHarness(agents[0], ScriptedLLM("A.", "B.", delay=0.1))
    harness.caller.says("turn 1", 0.5, 1.0)
    harness.caller.says("turn 2", 5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.update_agent(agents[1])
        harness.session.history.remove(harness.session.history.messages("user")[0])

    harness.run(scenario, until=8.0)
    assert asked(harness.llm, 1) == ["A.", "turn 2"]


@BOTH
@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (hangs, "the policy did not return within 0.5 s"),
        (lambda context: [], "must return a ChatContext, got list"),
        (lambda context: 1 / 0, "division"),
    ],
    ids=["hangs", "returns a list", "raises"],
)
def test_a_policy_that_fails_leaves_the_agent_the_whole_conversation(policy: Any, error: str) -> None:
    agents = [Agent("First."), Agent("Second.", overrides=AgentOverrides(context=policy))]
    options = SessionOptions(speech=SpeechLimits(hook_timeout=0.5))
    harness = SessionHarness(agents[0], ScriptedLLM("A.", "B.", delay=0.1), options=options)
    harness.expects_error("context")
    harness.caller.says("turn 1", 0.5, 1.0)
    harness.caller.says("turn 2", 5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        handoff = harness.session.update_agent(agents[1])
        await handoff
        assert handoff.outcome == "completed"

    harness.run(scenario, until=8.0)
    assert asked(harness.llm, 1) == ["turn 1", "A.", "turn 2"]
    (event,) = harness.recording.of(ErrorOccurred)
    assert error in str(event.error)


def test_a_realtime_model_gets_the_view_with_a_new_connection_and_the_whole_history_with_another() -> None:
    model = ScriptedRealtimeModel("A.", "B.", "C.", hears=["turn 1", "turn 2", "turn 3"], delay=0.1)
    second = Agent("Second.", overrides=AgentOverrides(context=lambda context: ChatContext()))
    first = Agent("First.")
    harness = SessionHarness(first, model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD()))
    for at in (0.5, 5.0, 10.0):
        harness.caller.makes_noise(at, at + 0.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.update_agent(second)
        await harness.until(8.0)
        await harness.session.update_agent(first)

    harness.run(scenario, until=13.0)
    histories = [[message.content for message in made.setup.history.messages()] for made in model.connections]
    assert histories == [[], [], ["turn 1", "A.", "turn 2", "B."]]
    assert len(harness.session.history.messages()) == 6


def test_a_tool_result_that_a_handoff_shortens_stays_short_for_the_next_agent() -> None:
    second = Agent("Second.", overrides=AgentOverrides(context=ContextWindow(max_tokens=400)))
    harness = SessionHarness(Agent("First.", tools=[look_up]), ScriptedLLM([LOOK_UP], "A.", "B.", delay=0.1))
    harness.caller.says("turn 1", 0.5, 1.0)
    harness.caller.says("turn 2", 8.0, 8.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        await harness.session.update_agent(second)

    harness.run(scenario, until=12.0)
    before, after = (sent.context.items[2] for sent in harness.llm.requests[1:])
    assert isinstance(before, FunctionCallOutput)
    assert isinstance(after, FunctionCallOutput)
    assert len(before.output) == 18_000
    assert len(after.output) < 400
    assert after.id == before.id


def test_an_async_context_window_of_a_session_is_waited_for() -> None:
    async def newest(context: ChatContext) -> ChatContext:
        await anyio.sleep(0.2)
        return context.truncate(max_items=1)

    harness = SessionHarness(
        Agent("Help."), ScriptedLLM("A.", "B.", delay=0.1), options=SessionOptions(context_window=newest)
    )
    harness.preemptive = True
    harness.caller.says("turn 1", 0.5, 1.0)
    harness.caller.says("turn 2", 4.0, 4.5)
    harness.run(until=7.0)
    assert (asked(harness.llm, 0), asked(harness.llm, 1)) == (["turn 1"], ["turn 2"])
    assert len(harness.llm.requests) == 2  # nothing is begun ahead


def test_an_async_context_window_that_hangs_sends_everything() -> None:
    options = SessionOptions(context_window=hangs, speech=SpeechLimits(hook_timeout=0.5))
    harness = SessionHarness(Agent("Help."), ScriptedLLM("A.", delay=0.1), options=options)
    harness.expects_error("context_window")
    harness.caller.says("turn 1", 0.5, 1.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "turn 1"), ("assistant", "A."))


def test_a_summary_window_checks_its_options() -> None:
    with pytest.raises(ConfigurationError, match="keep_items"):
        SummaryWindow(by=summarise, keep_items=-1)
    with pytest.raises(ConfigurationError, match="limit"):
        SummaryWindow(by=summarise, limit=0)
