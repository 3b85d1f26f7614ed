"""Endpointing and interruption options of an agent: from the handoff to it until the handoff from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit.tasks import GIVE, ORDER, Front, GetAddress
from vivavoce.agents import (
    Agent,
    AgentOverrides,
    AgentSession,
    EndpointingOptions,
    InterruptionOptions,
    SessionOptions,
    function_tool,
)
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.turn.trace.replay import read_trace, replay
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD, VirtualClock

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""

PATIENT = EndpointingOptions(min_delay=1.0)
TRANSFER = [ToolCall(call_id="c", name="transfer", arguments="{}")]


class Clerk(Agent):
    """Greets, and hands over to `to`."""

    def __init__(self, name: str, to: Agent | None = None, *, greets: str = "Hello.", **overrides: Any) -> None:
        super().__init__(f"You are {name}.", id=name, overrides=AgentOverrides(**overrides))
        self.to = to
        self.greets = greets

    @function_tool
    async def transfer(self) -> Agent | None:
        """Hand the caller over."""
        return self.to

    async def on_enter(self) -> None:
        await self.session.say(self.greets)


def caller_turns(harness: SessionHarness) -> list[TurnRecord]:
    """Return the turns in the order in which they were committed."""
    return sorted((turn for turn in harness.session.turns if turn.kind == "turn"), key=lambda t: t.committed_at or 0.0)


def speaks(harness: SessionHarness, text: str, start: float, end: float) -> None:
    """Let the caller speak; a realtime model makes the words itself, by its script."""
    if harness.model is None:
        harness.caller.says(text, start, end)
    else:
        harness.caller.makes_noise(start, end)


def harness_of(first: Agent, kind: str, *answers: Any, hears: list[str] | None = None) -> SessionHarness:
    """Return a call on a cascade, or on a realtime model whose turns the session ends."""
    if kind == "cascade":
        return SessionHarness(first, ScriptedLLM(*answers, delay=0.1))
    model = ScriptedRealtimeModel(*answers, hears=hears or [], delay=0.1)
    return SessionHarness(first, model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD(), tts=ScriptedTTS()))


@pytest.mark.parametrize("kind", ["cascade", "realtime"])
def test_an_agent_waits_by_its_own_delay_in_its_time_only(kind: str) -> None:
    second = Clerk("second", endpointing=PATIENT)
    first = second.to = Clerk("first", second)
    harness = harness_of(first, kind, TRANSFER, "Yes.", TRANSFER, "Fine.", hears=["one", "two", "three", "four"])
    for number, text in enumerate(("one", "two", "three", "four")):
        speaks(harness, text, 3.0 + 6 * number, 3.5 + 6 * number)
    harness.run(until=26.0)
    assert [turn.endpointing_delay for turn in caller_turns(harness)] == [0.4, 1.0, 1.0, 0.4]
    assert harness.session.agent is first


@BOTH
def test_the_first_agent_has_its_options_from_the_start_and_the_second_the_session_s() -> None:
    first = Clerk("first", Clerk("second"), endpointing=PATIENT)
    harness = SessionHarness(first, ScriptedLLM(TRANSFER, "Yes.", delay=0.1))
    harness.caller.says("one", 3.0, 3.5)
    harness.caller.says("two", 9.0, 9.5)
    harness.run(until=13.0)
    assert [turn.endpointing_delay for turn in caller_turns(harness)] == [1.0, 0.4]


def test_an_agent_that_replaces_the_first_one_before_the_start_has_its_own_too() -> None:
    async def main() -> None:
        stt, clock = ScriptedSTT(), VirtualClock()
        pipeline = CascadingPipeline(stt=stt, llm=ScriptedLLM("Yes."), tts=ScriptedTTS())
        first, second = Agent("Help.", overrides=AgentOverrides(endpointing=PATIENT)), Agent("Help.")
        second.overrides = AgentOverrides(endpointing=EndpointingOptions(min_delay=0.8))
        session = AgentSession[None](first, pipeline, options=SessionOptions(clock=clock))
        await session.update_agent(second)
        await session.start(LocalTransport(clock))
        stt.final("one")
        await anyio.sleep(5.0)
        await session.close()
        assert [turn.endpointing_delay for turn in session.turns] == [0.8]

    run_virtual(main())


@pytest.mark.parametrize("kind", ["cascade", "realtime"])
def test_an_agent_that_is_not_to_be_interrupted_is_not_and_the_next_one_is(kind: str) -> None:
    long = "These are the conditions of the contract, which you have to hear in full before we may go on with it."
    firm = Clerk("firm", greets=long, interruption=InterruptionOptions(enabled=False))
    harness = harness_of(Clerk("first"), kind, "Yes.", "Yes.", hears=["stop it please", "stop it please"])

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        speaks(harness, "stop it please", 2.0, 3.0)
        await session.update_agent(firm)
        await harness.until(20.0)
        speaks(harness, "stop it please", 22.0, 23.0)
        await session.update_agent(Clerk("last", greets=long))

    harness.run(scenario, until=40.0)
    said = [record for record in harness.session.turns if record.kind == "say"]
    assert [record.outcome for record in said] == ["completed", "completed", "interrupted"]


@BOTH
def test_the_fade_and_the_policy_of_the_record_are_the_agent_s() -> None:
    long = "These are the conditions of the contract, which you have to hear in full before we may go on with it."
    own = InterruptionOptions(mode="immediate", fade=0.2)
    harness = SessionHarness(Clerk("first"), ScriptedLLM("Yes.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.says("stop it please", 2.0, 3.0)
        await harness.session.update_agent(Clerk("second", greets=long, interruption=own))

    harness.run(scenario, until=6.0)
    said = [record for record in harness.session.turns if record.kind == "say"][-1]
    assert [cut.policy for cut in said.interruptions] == ["immediate"]


@BOTH
def test_a_task_has_its_own_options_or_those_of_the_agent_behind_it() -> None:
    class Careful(GetAddress):
        def __init__(self) -> None:
            AgentTask.__init__(self, "Ask.", id="address", overrides=AgentOverrides(endpointing=PATIENT))
            self.log, self.says = [], "Which address?"

    class Desk(Front):
        def __init__(self, make: Any) -> None:
            super().__init__([], make)
            self.overrides = AgentOverrides(endpointing=EndpointingOptions(min_delay=0.6))

    for make, delay in ((Careful, 1.0), (lambda: GetAddress([]), 0.6)):
        harness = SessionHarness(Desk(make), ScriptedLLM([ORDER], [GIVE], "It is ordered.", "Bye.", delay=0.1))
        harness.caller.says("order please", 0.5, 1.5)
        harness.caller.says("high street five", 6.0, 7.0)
        harness.caller.says("thank you", 12.0, 13.0)
        harness.run(until=16.0)
        assert [turn.endpointing_delay for turn in caller_turns(harness)] == [0.6, delay, 0.6]


@BOTH
def test_a_task_in_a_task_gives_each_its_own_back() -> None:
    class Outer(AgentTask[str]):
        def __init__(self) -> None:
            super().__init__("Ask.", id="outer", overrides=AgentOverrides(endpointing=PATIENT))

        async def on_enter(self) -> None:
            inner = GetAddress([])
            inner.overrides = AgentOverrides(endpointing=EndpointingOptions(min_delay=0.7))
            await inner

        @function_tool
        async def finish(self) -> None:
            """Finish."""
            self.complete("done")

    finish = ToolCall(call_id="f", name="finish", arguments="{}")
    model = ScriptedLLM([ORDER], [GIVE], [finish], "It is ordered.", "Bye.", delay=0.1)
    harness = SessionHarness(Front([], Outer), model)
    for number, text in enumerate(("order please", "high street five", "that is all", "thank you")):
        harness.caller.says(text, 0.5 + 6 * number, 1.5 + 6 * number)
    harness.run(until=24.0)
    assert [turn.endpointing_delay for turn in caller_turns(harness)] == [0.4, 0.7, 1.0, 0.4]


@BOTH
def test_words_before_a_push_to_talk_agent_are_answered_and_those_after_it_wait_for_the_button() -> None:
    manual = Clerk("manual", greets="Hold the button.", endpointing=EndpointingOptions(mode="manual"))
    harness = SessionHarness(Clerk("first"), ScriptedLLM("Yes.", "Fine.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(manual)
        harness.caller.says("a table", 3.0, 4.0)
        await harness.until(8.0)
        assert harness.messages[-1] == ("assistant", "Hold the button.")
        harness.session.input.commit_turn()
        await harness.until(10.0)
        await harness.session.update_agent(Clerk("last"))
        harness.caller.says("for two", 11.0, 12.0)

    harness.run(scenario, until=15.0)
    assert harness.messages[2:] == [
        ("user", "a table"),
        ("assistant", "Yes."),
        ("assistant", "Hello."),
        ("user", "for two"),
        ("assistant", "Fine."),
    ]


@BOTH
def test_a_trace_with_a_change_of_options_replays(tmp_path: Path) -> None:
    second = Clerk("second", endpointing=PATIENT, interruption=InterruptionOptions(min_duration=0.2))
    harness = SessionHarness(
        Clerk("first", second), ScriptedLLM(TRANSFER, "Yes.", delay=0.1), options=SessionOptions(trace_path=tmp_path)
    )
    harness.caller.says("one", 3.0, 3.5)
    harness.caller.says("two", 9.0, 9.5)
    harness.run(until=13.0)
    trace = read_trace((tmp_path / f"{harness.session.id}.jsonl").read_text().splitlines())
    (changed,) = [step.event for step in trace.steps if step.event["is"] == "TurnOptionsChanged"]
    assert isinstance(changed["endpointing"], dict)
    assert changed["endpointing"]["min_delay"] == 1.0
    assert replay(trace) is None


# --- options that do not fit

MANUAL = EndpointingOptions(mode="manual")


def remote() -> RealtimePipeline:
    return RealtimePipeline(ScriptedRealtimeModel())


def cascade() -> CascadingPipeline:
    return CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())


def test_options_that_the_pipeline_cannot_go_by_are_refused_at_once() -> None:
    with pytest.raises(CapabilityError, match="'manual' of agent 'first'"):
        AgentSession[None](Clerk("first", endpointing=MANUAL), remote())
    session = AgentSession[None](Clerk("first"), remote())
    with pytest.raises(CapabilityError, match="'manual' of agent 'second'.*switch off the turn detection"):
        _ = session.update_agent(Clerk("second", endpointing=MANUAL))
    with pytest.raises(ConfigurationError, match="endpointing must be"):
        AgentOverrides(endpointing=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="interruption must be"):
        AgentOverrides(interruption=PATIENT)  # type: ignore[arg-type]


@pytest.mark.parametrize("has_task", [False, True])
def test_a_pipeline_that_cannot_go_by_the_present_agent_s_options_is_refused(has_task: bool) -> None:
    class Waiting(AgentTask[str]):
        async def on_enter(self) -> None:
            with pytest.raises(CapabilityError, match="'manual' of agent 'first'"):
                _ = self.session.update_pipeline(remote())
            self.complete("tried")

    class First(Clerk):
        async def on_enter(self) -> None:
            if has_task:
                await Waiting("Wait.")

    harness = SessionHarness(First("first", endpointing=MANUAL))

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError, match="'manual' of agent 'first'"):
            _ = harness.session.update_pipeline(remote())

    harness.run(scenario, until=3.0)


def test_an_agent_whose_options_no_longer_fit_has_the_session_s_with_an_error() -> None:
    other: Pipeline = RealtimePipeline(ScriptedRealtimeModel("Yes.", delay=0.1))
    harness = SessionHarness(Clerk("first"), pipeline=cascade())
    harness.expects_error("pipeline", contains="'manual' of agent 'second'")

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        change = session.update_pipeline(other)  # takes over before the handoff, which was asked for later
        handoff = session.update_agent(Clerk("second", endpointing=MANUAL))
        await change
        await handoff
        assert handoff.outcome == "failed"

    harness.run(scenario, until=4.0)
    assert len(harness.recording.of(ErrorOccurred)) == 1


def test_a_pipeline_that_does_not_go_with_an_agent_that_has_come_since_the_request_fails_the_change() -> None:
    harness = SessionHarness(Clerk("first"), pipeline=cascade())
    harness.expects_error("pipeline", contains="'manual' of agent 'second'")

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        handoff = session.update_agent(Clerk("second", endpointing=MANUAL))
        change = session.update_pipeline(remote())
        await change
        await handoff
        assert (handoff.outcome, change.outcome) == ("completed", "failed")
        assert "switch off the turn detection" in str(change.exception())
        assert session.pipeline is harness.pipeline

    harness.run(scenario, until=4.0)
    assert len(harness.recording.of(ErrorOccurred)) == 1


def test_an_agent_that_comes_while_a_pipeline_waits_for_its_moment_has_the_session_s_options_with_an_error() -> None:
    harness = SessionHarness(Clerk("first"), pipeline=cascade())
    harness.expects_error("pipeline", contains="'manual' of agent 'second'")
    harness.caller.makes_noise(3.0, 6.0)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        _ = session.say("a speech of some twenty words that " + "goes on and on " * 4, interruptible=False)
        handoff = session.update_agent(Clerk("second", endpointing=MANUAL))
        change = session.update_pipeline(remote())
        await harness.until(2.0)  # it is open, and waits: for that speech, and then for the turn that begins meanwhile
        await handoff
        assert (handoff.outcome, change.outcome) == ("completed", None)
        session.input.clear_turn()
        await change
        assert (change.outcome, session.agent.id) == ("completed", "second")

    harness.run(scenario, until=12.0)
    assert len(harness.recording.of(ErrorOccurred)) == 1


def test_waits_of_an_agent_beyond_the_budget_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    options = SessionOptions(endpointing=replace(PATIENT, min_delay=0.4))
    AgentSession[None](Clerk("slow", endpointing=EndpointingOptions(min_delay=2.0)), cascade(), options=options)
    assert "with the options of agent 'slow', add up to more than 1 s" in caplog.text
