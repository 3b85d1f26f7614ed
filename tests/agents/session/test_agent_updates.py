"""An agent's instructions and tools change while it talks: in the model's next step, and in an open connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness, ToolCall
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ConfigChange
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities


@function_tool
async def pay(card: str) -> str:
    "Pay."
    return "paid"


class Host(Agent):
    @function_tool
    async def book(self, day: str) -> str:
        "Book a table."
        return "booked"


def assign(agent: Agent, text: str) -> None:
    agent.instructions = text


@pytest.mark.parametrize("change", [Agent.update_instructions, assign], ids=["update", "assign"])
def test_new_instructions_and_tools_are_in_the_models_next_request(change: Callable[[Agent, str], None]) -> None:
    agent, llm = Host("Be kind."), ScriptedLLM("One.", "Two.")
    harness = SessionHarness(agent, llm)
    harness.caller.types("first", at=1.0)
    harness.caller.types("second", at=5.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        change(agent, "Be curt.")
        agent.update_tools([*agent.tools, pay])
        assert agent.instructions == "Be curt."

    harness.run(scenario, until=8.0)
    asked = [(request.instructions, [tool.name for tool in request.tools]) for request in llm.requests]
    assert asked == [("Be kind.", ["book"]), ("Be curt.", ["book", "pay"])]
    changes = [item for item in harness.session.history.items if isinstance(item, ConfigChange)]
    assert [(item.agent, item.instructions, item.tools_added) for item in changes] == [
        ("Host", "Be curt.", ()),
        ("Host", None, ("pay",)),
    ]


def test_a_tool_that_changes_the_agent_changes_the_step_that_answers_its_result() -> None:
    class Upgrading(Host):
        @function_tool
        async def log_in(self) -> str:
            "Log in."
            self.update_instructions("The caller is known.")
            self.update_tools([pay])
            return "welcome"

    llm = ScriptedLLM([ToolCall(call_id="1", name="log_in", arguments="{}")], "Hello, Bob.")
    harness = SessionHarness(Upgrading("Be kind."), llm)
    harness.caller.types("it is me", at=1.0)
    harness.run(until=4.0)
    assert llm.requests[1].instructions == "The caller is known."
    assert [tool.name for tool in llm.requests[1].tools] == ["pay"]


@pytest.mark.parametrize("can_update", [True, False], ids=["updated", "opened anew"])
def test_a_realtime_model_whose_server_decides_turns_is_told_at_once(can_update: bool) -> None:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"remote"}), updates=can_update)
    agent, model = Host("Be kind."), ScriptedRealtimeModel("Hello.", capabilities=capabilities)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        agent.instructions = "Be curt."
        agent.update_tools([pay])
        await harness.until(1.5)
        instructions, tools = model.connections[-1].record.updates[-1]
        assert (instructions, [tool.name for tool in tools]) == ("Be curt.", ["pay"])

    SessionHarness(agent, model=model, pipeline=RealtimePipeline(model)).run(scenario)
    assert len(model.connections) == 1 if can_update else len(model.connections) > 1


def test_an_agent_that_has_not_the_conversation_changes_for_when_it_has() -> None:
    first, second, model = Host("Be kind."), Host("Be there."), ScriptedRealtimeModel("Hello.")

    async def scenario(harness: SessionHarness) -> None:
        second.instructions = "Be later."
        await harness.session.update_agent(second)
        first.instructions = "Be gone."
        await harness.until(1.0)
        assert [update[0] for update in model.connections[0].record.updates] == ["Be kind.", "Be later."]

    SessionHarness(first, model=model).run(scenario)


def test_instructions_may_be_changed_from_a_thread() -> None:
    agent, model = Host("Be kind."), ScriptedRealtimeModel("Hello.")

    async def scenario(harness: SessionHarness) -> None:
        await anyio.to_thread.run_sync(agent.update_instructions, "Be curt.")
        await harness.until(1.0)
        assert threading.current_thread() is threading.main_thread()
        assert model.connections[0].record.updates[-1][0] == "Be curt."

    SessionHarness(agent, model=model).run(scenario)


def test_an_agent_outside_of_a_session_is_changed_as_it_is() -> None:
    agent = Host("Be kind.")
    agent.update_tools([pay])
    assert [tool.name for tool in agent.tools] == ["pay"]
    with pytest.raises(ConfigurationError, match="got \\['pay'\\] twice"):
        agent.update_tools([pay, pay])
    assert [tool.name for tool in agent.tools] == ["pay"]


def test_a_tool_without_a_schema_is_refused_where_it_is_given_and_the_session_keeps_its_tools() -> None:
    class Odd:
        pass

    def odd(what: Odd) -> str:
        "Odd."
        return ""

    agent = Host("Be kind.")

    async def scenario(harness: SessionHarness) -> None:
        odd.__annotations__["what"] = Odd
        with pytest.raises(ConfigurationError, match="no JSON schema"):
            agent.update_tools([function_tool(odd)])
        assert [tool.name for tool in agent.tools] == ["book"]

    harness: Any = SessionHarness(agent, ScriptedLLM("One."))
    harness.run(scenario)
