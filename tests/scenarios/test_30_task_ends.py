"""The ends of tasks: errors, limits, handoffs, the close, and code that may not await one."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kit.tasks import GIVE, ORDER, Front, GetAddress, call, items, ordering, said
from vivavoce.agents import Agent, SessionOptions, SpeechLimits, WakeUp, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import AgentChanged, ErrorOccurred, WakeUpFired
from vivavoce.agents.tasks import AgentTask, TaskError, TaskOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError, SessionError

# --- errors


class Broken(GetAddress):
    async def on_enter(self) -> None:
        raise RuntimeError("no")


def test_an_on_enter_that_raises_fails_its_task_with_that_error_as_the_cause() -> None:
    errors: list[TaskError] = []

    class Desk(Agent):
        @function_tool
        async def order(self) -> str:
            """Order."""
            try:
                await Broken([])
            except TaskError as error:
                errors.append(error)
            return "later"

    harness = SessionHarness(Desk("You are front.", id="front"), ScriptedLLM([ORDER], "Later.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.expects_error("hook").run(until=6.0)
    (error,) = errors
    assert (error.outcome, error.task, type(error.__cause__)) == ("failed", "address", RuntimeError)
    assert "no" not in str(error)  # a foreign error may quote the caller
    assert said(harness) == ["Later."]
    assert harness.session.agent.id == "front"


def test_a_task_that_fails_itself_raises_its_error_s_kind() -> None:
    class Failing(GetAddress):
        async def on_enter(self) -> None:
            self.fail(ValueError("no"))

    log: list[str] = []
    harness = SessionHarness(Front(log, lambda: Failing(log)), ScriptedLLM([ORDER], "Later.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.run(until=6.0)
    assert "the task 'address' ended without a result: failed (ValueError)" in log
    assert harness.recording.of(ErrorOccurred) == []


# --- cancelling


def test_a_task_is_cancelled_by_its_method_and_its_speech_is_played_first() -> None:
    tasks: list[GetAddress] = []
    log: list[str] = []

    def make() -> GetAddress:
        tasks.append(GetAddress(log, says="one two three four five six seven."))
        return tasks[0]

    harness = SessionHarness(Front(log, make), ScriptedLLM([ORDER], "Later.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        tasks[0].cancel()
        await harness.until(8.0)

    harness.run(scenario)
    assert tasks[0].outcome == "cancelled"
    assert "the task 'address' ended without a result: cancelled" in log
    assert said(harness) == ["one two three four five six seven.", "Later."]


def test_cancelling_the_code_that_awaits_gives_the_floor_back() -> None:
    log: list[str] = []

    class Desk(Agent):
        @function_tool
        async def order(self) -> str:
            """Order."""
            with anyio.move_on_after(4.0):
                await GetAddress(log)
            return "no address"

    harness = SessionHarness(Desk("You are front.", id="front"), ScriptedLLM([ORDER], "Then not.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.run(until=9.0)
    assert said(harness) == ["Which address?", "Then not."]
    assert log == ["task enters", "task leaves"]
    assert harness.session.agent.id == "front"


def test_the_end_of_an_outer_task_ends_the_inner_one_first() -> None:
    log: list[str] = []

    class Outer(AgentTask[str]):
        async def on_enter(self) -> None:
            inner.append(GetAddress(log))
            await inner[0]

    inner: list[GetAddress] = []
    harness = SessionHarness(
        Front(log, lambda: Outer("Outer.", id="outer", options=TaskOptions(max_seconds=4.0))),
        ScriptedLLM([ORDER], "Then not.", delay=0.1),
    )
    harness.caller.says("order please", 0.5, 1.5)
    harness.run(until=9.0)
    assert log[:3] == ["task enters", "task leaves", "the task 'outer' ended without a result: out_of_time"]
    assert inner[0].outcome == "cancelled"
    changed = [(e.old, e.agent) for e in harness.recording.of(AgentChanged)]
    assert changed == [("front", "outer"), ("outer", "address"), ("address", "outer"), ("outer", "front")]
    assert said(harness)[-1] == "Then not."


# --- another agent


def test_update_agent_ends_all_tasks_and_the_new_agent_has_the_conversation() -> None:
    harness, _, log = ordering([ORDER])

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.0)
        await harness.session.update_agent(Agent("Be the boss.", id="boss"))
        await harness.until(6.0)

    harness.run(scenario)
    assert log == [
        "task enters",
        "task leaves",
        "the task 'address' ended without a result: replaced",
        "front leaves",
    ]
    changed = [(e.old, e.agent) for e in harness.recording.of(AgentChanged)]
    assert changed == [("front", "address"), ("address", "front"), ("front", "boss")]
    assert harness.session.agent.id == "boss"


def test_a_tool_of_a_task_that_returns_an_agent_hands_the_conversation_over() -> None:
    log: list[str] = []

    class Transferring(GetAddress):
        @function_tool
        async def transfer(self) -> Agent:
            """Hand over."""
            return Agent("Be the boss.", id="boss")

    llm = ScriptedLLM([ORDER], [call("transfer")], "The boss here.", delay=0.1)
    harness = SessionHarness(Front(log, lambda: Transferring(log)), llm)
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("the boss please", 4.0, 5.0)
    harness.run(until=9.0)
    assert harness.session.agent.id == "boss"
    assert "the task 'address' ended without a result: replaced" in log
    assert llm.requests[-1].instructions == "Be the boss."


def test_a_task_is_no_agent_of_a_session_and_none_to_hand_over_to() -> None:
    with pytest.raises(ConfigurationError, match="must be no task"):
        SessionHarness(GetAddress([])).run(until=1.0)
    log: list[str] = []

    class Desk(Agent):
        @function_tool
        async def transfer(self) -> Agent:
            """Hand over."""
            return GetAddress(log)

    harness = SessionHarness(Desk("Front.", id="front"), ScriptedLLM([call("transfer")], "Sorry.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.expects_error("tool").run(until=5.0)
    assert "output: Not handed over to 'address': it cannot take over." in items(harness)
    assert harness.session.agent.id == "front"


# --- the close


def test_the_close_ends_a_task_and_all_agents_leave() -> None:
    outcomes: list[str] = []
    log: list[str] = []
    harness = SessionHarness(Front(log, lambda: GetAddress(log)), ScriptedLLM())

    async def scenario(harness: SessionHarness) -> None:
        async def ask() -> None:
            try:
                await harness.session.run_task(GetAddress(log))
            except TaskError as error:
                outcomes.append(error.outcome)

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await harness.until(3.0)
            report = await harness.session.close()
            assert report.is_clean

    harness.run(scenario)
    assert outcomes == ["closed"]
    assert log == ["task enters", "task leaves", "front leaves"]


def test_a_caller_who_leaves_for_good_closes_the_session_and_with_it_the_task() -> None:
    harness, _, log = ordering([ORDER])
    harness.caller.leaves(4.0)
    harness.run(until=20.0)
    assert harness.close_report is not None
    assert harness.close_report.reason == "participant_left"
    assert harness.close_report.is_clean
    assert log[:1] == ["task enters"]
    assert "front leaves" in log


def test_a_task_cannot_be_awaited_in_on_exit_nor_in_a_closing_session() -> None:
    errors: list[Exception] = []

    class Leaving(Agent):
        async def on_exit(self) -> None:
            try:
                await GetAddress([])
            except SessionError as error:
                errors.append(error)

    harness = SessionHarness(Leaving("Front.", id="front"), ScriptedLLM())

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_agent(Leaving("Next.", id="next"))

    harness.run(scenario)
    first, second = errors
    assert "cannot be awaited here" in str(first)
    assert isinstance(second, SessionClosedError)


# --- limits of the code that awaits


def test_the_limit_of_a_tool_stands_still_while_it_awaits_a_task() -> None:
    harness, _, log = ordering([ORDER], [GIVE], "It is ordered.", options=None)
    harness = SessionHarness(harness.agent, harness.llm, options=SessionOptions(tool_timeout=1.0))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 6.0, 7.0)
    harness.run(until=12.0)
    assert said(harness) == ["Which address?", "It is ordered."]


def test_the_limit_of_a_hook_stands_still_while_it_awaits_a_task() -> None:
    class Careful(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await GetAddress([], options=TaskOptions(max_turns=1))

    options = SessionOptions(speech=SpeechLimits(hook_timeout=1.0))
    llm = ScriptedLLM([GIVE], "It is ordered.", delay=0.1)
    harness = SessionHarness(Careful("Front.", id="front"), llm, options=options)
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 6.0, 7.0)
    harness.run(until=12.0)
    assert said(harness) == ["Which address?", "It is ordered."]


def test_a_silent_caller_is_woken_up_in_a_task_that_a_tool_awaits() -> None:
    harness, _, _ = ordering([ORDER], wake_up=WakeUp(after=5.0))
    harness.run(until=12.0)
    (woken,) = harness.recording.of(WakeUpFired)
    assert woken.at == pytest.approx(2.2 + 0.4 + 5.0)


# --- several tasks


def test_two_tools_of_one_step_that_await_tasks_run_one_after_the_other() -> None:
    log: list[str] = []
    harness = SessionHarness(
        Front(log, lambda: GetAddress(log)),
        ScriptedLLM([call("order", "{}", "a"), call("order", "{}", "b")], [GIVE], [GIVE], "Ordered twice.", delay=0.1),
    )
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 4.0, 5.0)
    harness.caller.says("high street six", 8.0, 9.0)
    harness.run(until=14.0)
    assert said(harness) == ["Which address?", "Which address?", "Ordered twice."]
    assert [line for line in log if line.startswith("task")] == ["task enters", "task leaves"] * 2


def test_a_hook_may_await_two_tasks_side_by_side_and_they_run_one_after_the_other() -> None:
    log: list[str] = []
    results: list[Any] = []

    class Careful(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            async def ask() -> None:
                results.append(await GetAddress(log))

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                group.start_soon(ask)

    llm = ScriptedLLM([GIVE], [GIVE], "Fine.", delay=0.1)
    harness = SessionHarness(Careful("Front.", id="front"), llm)
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 4.0, 5.0)
    harness.caller.says("high street six", 8.0, 9.0)
    harness.run(until=14.0)
    assert said(harness) == ["Which address?", "Which address?", "Fine."]
    assert len(results) == 2


def test_a_tool_of_a_reply_that_on_enter_awaits_may_await_a_task() -> None:
    log: list[str] = []

    class Greeter(Front):
        async def on_enter(self) -> None:
            await self.session.reply("Order at once.")
            await self.session.say("Well.")

    llm = ScriptedLLM([ORDER], [GIVE], "It is ordered.", delay=0.1)
    harness = SessionHarness(Greeter(log, lambda: GetAddress(log)), llm)
    harness.caller.says("high street five", 4.0, 5.0)
    harness.run(until=10.0)
    assert said(harness) == ["Which address?", "It is ordered.", "Well."]


# --- history


@pytest.mark.parametrize(
    ("history", "left"),
    [
        ("summary", ["user: order please", "system: address: Address(street='High Street', number=5)"]),
        ("leave_out", ["user: order please"]),
    ],
)
def test_the_dialogue_of_a_task_is_replaced_by_a_summary_or_left_out(history: Any, left: list[str]) -> None:
    harness, llm, _ = ordering([ORDER], [GIVE], "It is ordered.", options=TaskOptions(history=history))
    harness.caller.says("high street five", 4.0, 5.0)
    harness.run(until=10.0)
    assert [item for item in items(harness) if "->" not in item] == [
        *left,
        "FunctionCall",
        "output: ordered to Address(street='High Street', number=5)",
        "assistant: It is ordered.",
    ]
    heard = [message.content for message in llm.requests[-1].context.messages("user")]
    assert heard == ["order please"]


def test_a_snapshot_in_a_task_names_the_agent_behind_it() -> None:
    harness, _, _ = ordering([ORDER])

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.0)
        assert harness.session.agent.id == "address"
        assert harness.session.snapshot()["agent"] == "front"

    harness.run(scenario)


# --- the summary


@pytest.mark.parametrize("summary", [KeyError("street"), None])
def test_a_summary_that_raises_or_is_no_text_is_an_error_event_and_the_outcome_stands_for_the_dialogue(
    summary: Exception | None,
) -> None:
    class Summing(GetAddress):
        def summary(self, result: Any) -> str:
            if summary is not None:
                raise summary
            return None  # type: ignore[return-value]

    log: list[str] = []
    front = Front(log, lambda: Summing(log, options=TaskOptions(history="summary")))
    harness = SessionHarness(front, ScriptedLLM([ORDER], [GIVE], "It is ordered.", "Fine.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 4.0, 5.0)
    harness.caller.says("what now", 9.0, 10.0)
    harness.expects_error("hook").run(until=13.0)
    assert said(harness)[-2:] == ["It is ordered.", "Fine."]
    assert any("address: completed" in item for item in items(harness))
    assert len(harness.recording.of(ErrorOccurred)) == 1


def test_a_tool_of_an_inner_task_ends_the_task_around_it() -> None:
    class Inner(AgentTask[str]):
        def __init__(self, outer: Outer) -> None:
            super().__init__("Ask.", id="inner")
            self.outer = outer

        @function_tool
        async def enough(self) -> None:
            """End all of it."""
            self.outer.decline("enough")

    class Outer(AgentTask[str]):
        def __init__(self) -> None:
            super().__init__("Guide.", id="outer")

        async def on_enter(self) -> None:
            self.complete(await Inner(self))

    log: list[str] = []
    harness = SessionHarness(Front(log, Outer), ScriptedLLM([ORDER], [call("enough")], "Then not.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("no more", 4.0, 5.0)
    harness.expects_error("hook", contains="the task 'inner' ended without a result: cancelled")  # on_enter lets it out
    harness.run(until=9.0)
    assert "the task 'outer' ended without a result: declined (enough)" in log
    assert harness.session.agent.id == "front"
    assert said(harness)[-1] == "Then not."
