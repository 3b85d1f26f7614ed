"""Tasks: sub-dialogues that take the floor, and give it back with a typed result."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kit.tasks import GIVE, ORDER, Address, GetAddress, call, items, ordering, said
from vivavoce.agents import Agent, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import AgentChanged, ErrorOccurred
from vivavoce.agents.tasks import AgentTask, TaskOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import SessionError


def test_a_tool_awaits_a_task_which_talks_and_gives_the_floor_back_with_its_result() -> None:
    harness, llm, log = ordering([ORDER], [GIVE], "It is ordered.")
    harness.caller.says("high street five", 4.0, 5.0)
    harness.run(until=10.0)
    assert log == [
        "task enters",
        "task leaves",
        "got Address(street='High Street', number=5)",
        "front leaves",
    ]
    assert [request.instructions for request in llm.requests] == [
        "You are front.",
        "Get the address.",
        "You are front.",
    ]
    assert [tool.name for tool in llm.requests[1].tools] == ["give", "refuse"]
    assert items(harness) == [
        "user: order please",
        "front -> address",
        "assistant: Which address?",
        "user: high street five",
        "FunctionCall",
        "output: thanks",
        "address -> front",
        "FunctionCall",
        "output: ordered to Address(street='High Street', number=5)",
        "assistant: It is ordered.",
    ]
    harness.expect_outcomes("completed", "completed", "completed")
    changed = [(e.old, e.agent) for e in harness.recording.of(AgentChanged)]
    assert changed == [("front", "address"), ("address", "front")]
    order = next(turn for turn in harness.session.turns if turn.turn_id == "turn_1")
    assert order.e2e_latency == pytest.approx(0.7)  # 1.5 to 2.2, where the caller hears the task
    assert harness.session.agent.id == "front"


# --- where it is awaited


def test_an_on_enter_awaits_a_task_and_the_start_does_not_wait_for_its_end() -> None:
    log: list[str] = []

    class Greeter(Agent):
        async def on_enter(self) -> None:
            address = await GetAddress(log)
            await self.session.say(f"You live in {address.street}.")

    llm = ScriptedLLM([GIVE], "Anything else?", delay=0.1)
    harness = SessionHarness(Greeter("You are front.", id="front"), llm)
    harness.caller.says("high street five", 2.0, 3.0)
    harness.caller.says("what now", 6.0, 7.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.started()
        assert harness.now < 1.0
        await harness.until(10.0)

    harness.run(scenario)
    assert said(harness) == [
        "Which address?",
        "You live in High Street.",
        "Anything else?",
    ]
    assert [request.instructions for request in llm.requests] == ["Get the address.", "You are front."]


def test_an_on_enter_of_a_handoff_awaits_a_task() -> None:
    log: list[str] = []

    class Billing(Agent):
        async def on_enter(self) -> None:
            address = await GetAddress(log)
            await self.session.say(f"You live in {address.street}.")

    class Desk(Agent):
        @function_tool
        async def transfer(self) -> Agent:
            """Hand over."""
            return Billing("You are billing.", id="billing")

    llm = ScriptedLLM([call("transfer")], [GIVE], "Anything else?", delay=0.1)
    harness = SessionHarness(Desk("You are front.", id="front"), llm)
    harness.caller.says("billing please", 0.5, 1.5)
    harness.caller.says("high street five", 4.0, 5.0)
    harness.caller.says("what now", 8.0, 9.0)
    harness.run(until=12.0)
    assert said(harness) == [
        "Which address?",
        "You live in High Street.",
        "Anything else?",
    ]
    assert [request.instructions for request in llm.requests] == [
        "You are front.",
        "Get the address.",
        "You are billing.",
    ]
    assert harness.session.agent.id == "billing"
    assert log == ["task enters", "task leaves"]


def test_a_hook_of_a_turn_awaits_a_task_and_the_turn_is_answered_behind_it() -> None:
    log: list[str] = []

    class Careful(Agent):
        asked = False

        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            if not self.asked:
                self.asked = True
                address = await GetAddress(log)
                turn.instructions = f"They live in {address.street}."

    llm = ScriptedLLM([GIVE], "It is ordered.", delay=0.1)
    harness = SessionHarness(Careful("You are front.", id="front"), llm)
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 4.0, 5.0)
    harness.run(until=20.0)
    assert said(harness) == ["Which address?", "It is ordered."]
    assert [request.instructions for request in llm.requests] == ["Get the address.", "You are front."]
    assert llm.requests[1].extra_instructions == "They live in High Street."


def test_code_outside_of_the_session_awaits_a_task_by_the_session() -> None:
    log: list[str] = []
    results: list[Any] = []
    llm = ScriptedLLM([GIVE], delay=0.1)
    harness = SessionHarness(Agent("You are front.", id="front"), llm)
    harness.caller.says("high street five", 2.0, 3.0)

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(SessionError, match=r"session.run_task\(task\)"):
            await GetAddress(log)
        task = GetAddress(log)
        results.append(await harness.session.run_task(task))
        assert task.outcome == "completed"
        assert await harness.session.run_task(task) is results[0]  # it runs once

    harness.run(scenario)
    assert results == [Address(street="High Street", number=5)]


def test_tasks_nest_and_the_floor_goes_back_one_by_one() -> None:
    log: list[str] = []

    class Outer(AgentTask[str]):
        async def on_enter(self) -> None:
            await self.session.say("First the address.")
            address = await GetAddress(log)
            await self.session.say("And your name?")
            self.street = address.street

        @function_tool
        async def name(self, name: str) -> None:
            """Give the name."""
            self.complete(f"{name}, {self.street}")

    class Desk(Agent):
        @function_tool
        async def order(self) -> str:
            """Order."""
            return await Outer("Get name and address.", id="outer")

    llm = ScriptedLLM([ORDER], [GIVE], [call("name", '{"name": "Ann"}')], "It is ordered.", delay=0.1)
    harness = SessionHarness(Desk("You are front.", id="front"), llm)
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 5.0, 6.0)
    harness.caller.says("ann", 9.0, 9.6)
    harness.run(until=15.0)
    assert said(harness) == [
        "First the address.",
        "Which address?",
        "And your name?",
        "It is ordered.",
    ]
    changed = [(e.old, e.agent) for e in harness.recording.of(AgentChanged)]
    assert changed == [("front", "outer"), ("outer", "address"), ("address", "outer"), ("outer", "front")]
    assert "output: Ann, High Street" in items(harness)


# --- results and ends


def test_a_result_that_does_not_validate_goes_back_to_the_model_with_the_reason() -> None:
    bad = call("give", '{"street": "Hi", "number": "none"}', "bad")
    harness, llm, log = ordering([ORDER], [bad], "Which number, please?", [GIVE], "It is ordered.")
    harness.caller.says("hi none", 4.0, 5.0)
    harness.caller.says("high street five", 8.0, 9.0)
    harness.run(until=14.0)
    (output,) = [item for item in items(harness) if item.startswith("output: The result is not valid")]
    assert re.search(r"street: .+ 3 ", output)
    assert re.search("number: .+ integer", output)
    assert "got Address(street='High Street', number=5)" in log
    assert harness.recording.of(ErrorOccurred) == []


def test_a_caller_who_declines_is_a_tool_error_that_the_agent_s_model_answers() -> None:
    harness, llm, log = ordering([ORDER], [call("refuse")], "Then not.")
    harness.caller.says("i do not want to", 4.0, 5.0)
    harness.run(until=10.0)
    reason = "the task 'address' ended without a result: declined (rather not)"
    assert log == ["task enters", "task leaves", reason, "front leaves"]
    assert f"output: {reason}" in items(harness)
    assert harness.messages[-1] == ("assistant", "Then not.")
    assert harness.recording.of(ErrorOccurred) == []


def test_a_task_ends_at_its_limit_of_seconds() -> None:
    harness, llm, log = ordering([ORDER], "Then not.", options=TaskOptions(max_seconds=5.0))
    harness.run(until=12.0)
    assert "the task 'address' ended without a result: out_of_time" in log
    assert harness.messages[-1] == ("assistant", "Then not.")
    assert harness.recording.of(AgentChanged)[1].at == pytest.approx(harness.recording.of(AgentChanged)[0].at + 5.0)


def test_a_task_ends_at_its_limit_of_turns_once_the_last_one_is_answered() -> None:
    harness, llm, log = ordering([ORDER], "Pardon?", "Pardon?", "Then not.", options=TaskOptions(max_turns=2))
    harness.caller.says("what", 4.0, 5.0)
    harness.caller.says("who", 8.0, 9.0)
    harness.run(until=14.0)
    assert "the task 'address' ended without a result: out_of_turns" in log
    assert said(harness)[-3:] == ["Pardon?", "Pardon?", "Then not."]
