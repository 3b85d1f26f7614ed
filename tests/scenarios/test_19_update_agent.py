"""Scenario 19: `update_agent` hands the conversation over, from anywhere and at any time; and the close."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from kit.handoff import TRANSFER, Clerk, Desk
from vivavoce.agents import (
    Agent,
    AgentSession,
    AgentState,
    CompletedTurn,
    Handoff,
    RunContext,
    SessionOptions,
    function_tool,
)
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError, SessionError
from vivavoce.pipelines.llm.tools import ToolCall

# --- update_agent


def test_update_agent_waits_for_what_was_asked_for_before_it_and_goes_before_what_comes_after() -> None:
    desk = Desk("News for you.", enters="Billing here.")

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        _ = session.say("One moment."), session.say("I put you through.")
        handoff = session.update_agent(desk.billing)
        later = session.reply("Tell the news.")
        assert handoff.outcome is None
        await handoff
        assert handoff.outcome == "completed"
        await later

    desk.harness.run(scenario)
    assert desk.items == [
        "assistant: One moment.",
        "assistant: I put you through.",
        "front -> billing",
        "assistant: Billing here.",
        "assistant: News for you.",
    ]
    assert desk.llm.requests[0].instructions == "You are billing."


def test_update_agent_from_a_thread_and_awaited_in_a_tool() -> None:
    log: list[str] = []
    billing = Clerk("billing", log)

    class Front(Agent):
        @function_tool
        def sync(self, context: RunContext) -> str:
            """Hand over from a thread."""
            _ = context.session.update_agent(billing)
            return "asked"

        @function_tool
        async def awaited(self, context: RunContext) -> str:
            """Hand over and wait for it."""
            handoff = context.session.update_agent(billing)
            await handoff
            return str(handoff.outcome)

    for name, output in (("sync", "asked"), ("awaited", "completed")):
        llm = ScriptedLLM([ToolCall(call_id="c1", name=name, arguments="{}")], "Hello.", delay=0.1)
        harness = SessionHarness(Front("Be front."), llm)
        harness.caller.says("billing please", 0.5, 1.5)
        harness.run(until=5.0)
        harness.expect_tools((name, output)).expect_outcomes("completed")
        assert harness.session.agent is billing


def test_handoffs_asked_for_in_on_enter_follow_each_other() -> None:
    log: list[str] = []
    last = Clerk("last", log, enters="At your service.")

    class Middle(Clerk):
        async def on_enter(self) -> None:
            await super().on_enter()
            handoff = self.session.update_agent(last)
            with pytest.raises(SessionError, match="begins after this code"):
                await handoff
            await self.session.say("I put you through again.")

    front = Clerk("front", log)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(Middle("middle", log))
        await harness.until(5.0)

    harness = SessionHarness(front).run(scenario)
    assert log[:6] == ["front enters", "front leaves", "middle enters", "middle leaves", "last enters", "last leaves"]
    harness.expect_history(("assistant", "I put you through again."), ("assistant", "At your service."))


def test_a_handoff_in_the_first_agent_s_on_enter_waits_for_it() -> None:
    log: list[str] = []
    billing = Clerk("billing", log)

    class Front(Clerk):
        async def on_enter(self) -> None:
            _ = self.session.update_agent(billing)
            await self.session.say("Welcome to the house.")
            await super().on_enter()

    harness = SessionHarness(Front("front", log)).run(until=3.0)
    assert log[:3] == ["front enters", "front leaves", "billing enters"]
    harness.expect_history(("assistant", "Welcome to the house."))


def test_a_first_on_enter_that_never_ends_is_cut_for_a_handoff() -> None:
    log: list[str] = []
    billing = Clerk("billing", log)

    class Front(Clerk):
        async def on_enter(self) -> None:
            await anyio.sleep_forever()

    async def main() -> None:
        clock = VirtualClock()
        harness = SessionHarness(Agent("x"))
        session: AgentSession[None] = AgentSession(
            Front("front", log), harness.pipeline, options=SessionOptions(clock=clock)
        )
        async with anyio.create_task_group() as group:
            group.start_soon(session.start, LocalTransport(clock))
            await anyio.sleep(1.0)
            assert session.agent_state is AgentState.STARTING
            await session.update_agent(billing)
            assert clock.now() == pytest.approx(11.0)
        assert session.agent_state is AgentState.IDLE  # start() has returned
        await session.close()

    run_virtual(main())
    assert log[:2] == ["front leaves", "billing enters"]


def test_an_agent_that_comes_back_is_cleaned_up_once() -> None:
    desk = Desk()

    async def scenario(harness: SessionHarness) -> None:
        for agent in (desk.billing, desk.front, desk.billing, desk.billing):
            await harness.session.update_agent(agent)

    desk.harness.run(scenario)
    assert [line for line in desk.log if "cleans" in line] == ["front cleans up", "billing cleans up"]
    assert desk.items == ["front -> billing", "billing -> front", "front -> billing"]
    with pytest.raises(SessionError, match="no longer in its session"):
        _ = desk.front.session


def test_before_the_start_update_agent_takes_the_first_one_s_place_and_after_the_close_it_raises() -> None:
    log: list[str] = []
    front, billing = Clerk("front", log), Clerk("billing", log)

    async def main() -> None:
        clock = VirtualClock()
        harness = SessionHarness(Agent("x"))
        session: AgentSession[None] = AgentSession(front, harness.pipeline, options=SessionOptions(clock=clock))
        assert session.update_agent(billing).outcome == "completed"
        assert session.agent is billing
        await session.start(LocalTransport(clock))
        await session.close()
        with pytest.raises(SessionClosedError):
            _ = session.update_agent(front)
        with pytest.raises(ConfigurationError, match="must be an Agent"):
            _ = session.update_agent("front")  # type: ignore[arg-type]

    run_virtual(main())
    assert log == ["billing enters", "billing leaves", "billing cleans up"]


def test_an_agent_serves_one_session_at_a_time() -> None:
    agent = Agent("Help.", id="shared")
    first, second = SessionHarness(agent), SessionHarness(Agent("Help."))

    async def main() -> None:
        async with first, second:
            with pytest.raises(SessionError, match="agent 'shared' is in session 'session_.*one session at a time"):
                _ = second.session.update_agent(agent)
        with pytest.raises(SessionError, match="no longer in its session"):
            _ = agent.session

    run_virtual(main())


def test_on_user_turn_completed_cannot_wait_for_a_handoff_which_follows_the_answer() -> None:
    billing = Agent("Be billing.", id="billing")
    caught: list[SessionError] = []

    class Front(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            handoff = self.session.update_agent(billing)
            try:
                await handoff
            except SessionError as error:
                caught.append(error)

    harness = SessionHarness(Front("Be front."), ScriptedLLM("One moment.", delay=0.1))
    harness.caller.says("billing please", 0.5, 1.5)
    harness.run(until=5.0)
    assert len(caught) == 1
    assert harness.session.agent is billing
    assert harness.llm.requests[0].instructions == "Be front."


def test_what_an_agent_observes_of_the_audio_changes_with_it() -> None:
    heard: list[str] = []

    class Listening(Agent):
        def on_speech_in(self, frame: object) -> None:
            heard.append(self.id)

    first, second = Listening("x", id="first"), Listening("x", id="second")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_agent(second)
        await harness.until(2.0)

    SessionHarness(first).run(scenario)
    assert heard == sorted(heard)
    assert set(heard) == {"first", "second"}


# --- at the end


@pytest.mark.parametrize(
    ("at", "log"),
    [
        (2.3, ["front leaves", "front cleans up"]),  # in on_exit, which is not run twice
        (2.9, ["front leaves", "billing enters", "billing leaves", "front cleans up", "billing cleans up"]),
    ],
)
def test_closing_in_mid_handoff_leaves_the_agent_that_is_there(at: float, log: Sequence[str]) -> None:
    desk = Desk([TRANSFER], enters="Billing here, hello.", leaves="Goodbye now.").asked()
    harness = desk.harness.run(until=at)
    assert desk.log[2:] == log
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert harness.close_report.seconds < 0.2


def test_closing_drops_the_handoff_that_waits() -> None:
    desk = Desk()
    handoffs: list[Handoff] = []

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say("One two three four five six.")
        handoffs.append(harness.session.update_agent(desk.billing))
        await harness.until(1.0)

    desk.harness.run(scenario)
    assert handoffs[0].outcome == "cancelled"
    assert desk.log == ["front enters", "front leaves", "front cleans up"]
    with pytest.raises(SessionError, match="no longer in its session"):
        _ = desk.billing.session


@pytest.mark.parametrize("hook", ["on_enter", "on_exit"])
def test_a_hook_of_a_handoff_may_close_the_session(hook: str) -> None:
    async def close(self: Agent) -> None:
        await self.session.close()

    closing = type("Closing", (Agent,), {hook: close})("Help.")
    other = Agent("Help.")
    first, second = (closing, other) if hook == "on_exit" else (other, closing)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        _ = harness.session.update_agent(second)
        report = await harness.session.wait_closed()
        assert report.is_clean
        assert report.seconds < 0.2

    SessionHarness(first).run(scenario)


def test_one_agent_s_failing_cleanup_costs_no_other_its_own() -> None:
    desk = Desk()

    class Dirty(Clerk):
        async def cleanup(self) -> None:
            raise RuntimeError("no")

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(Dirty("dirty", desk.log))
        await harness.session.update_agent(desk.billing)

    harness = desk.harness.run(scenario)
    assert [line for line in desk.log if "cleans" in line] == ["front cleans up", "billing cleans up"]
    assert harness.close_report is not None
    assert [(step.name, step.error) for step in harness.close_report.steps if step.error] == [
        ("agent cleanup", "RuntimeError")
    ]
