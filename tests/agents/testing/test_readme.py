"""The snippets of agents/testing/README.md run, and all names in it exist."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from vivavoce import pipelines
from vivavoce.agents import Agent, function_tool
from vivavoce.agents import testing as kit
from vivavoce.agents.testing import (
    Caller,
    ExpectCall,
    ExpectHandoff,
    ExpectMessage,
    Harnesses,
    ScriptedLLM,
    SessionHarness,
)

README = (Path(kit.__path__[0]) / "README.md").read_text(encoding="utf-8")
TABLE, TURNS, SEVERAL, PARTS, REALTIME, SERVER, JUDGES = re.findall(r"^```python\n(.*?)^```", README, flags=re.M | re.S)


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings.")

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        return f"booked {day}"

    async def on_enter(self) -> None:
        await self.session.say("Hello, a table for when?")


def names() -> dict[str, Any]:
    call = kit.ToolCall(call_id="1", name="book", arguments='{"day": "friday"}')
    return {**vars(kit), "Agent": Agent, "Host": Host, "call": call}


def run(source: str) -> dict[str, Any]:
    space = names()
    exec(compile(source, "README.md", "exec"), space)
    return space


def test_the_first_test_shown_passes() -> None:
    run(TABLE)["test_the_host_books_a_table"]()


def test_the_scenario_shown_passes() -> None:
    assert "run(scenario)" in TURNS
    run(TURNS)


def test_the_sessions_shown_run_in_one_time() -> None:
    run(SEVERAL)["test_a_second_session_goes_on_with_the_call"]()


def test_the_parts_shown_make_a_harness() -> None:
    harness = run(PARTS)["harness"]
    harness.caller.says("a table for", 1.0, 2.0)
    harness.caller.says("two please", 3.0, 4.0)
    harness.run(until=8.0).expect.contains_message("Booked.")


def test_the_realtime_models_shown_answer() -> None:
    shown = run(REALTIME)
    shown["test_a_model_whose_server_decides_turns"]()
    shown["test_a_model_whose_turns_the_session_decides"]()


async def test_the_realtime_server_shown_answers_a_real_client() -> None:
    await run(REALTIME + SERVER)["test_the_model_of_openai_answers"]()


def test_the_judges_shown_judge() -> None:
    async def scenario(harness: SessionHarness) -> None:
        yes = '{"passed": true, "reason": "It does."}'
        space = {**names(), "harness": harness, "llm": ScriptedLLM(yes, yes)}
        code = compile(JUDGES, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, space)
        assert inspect.isawaitable(running)
        await running
        assert space["verdict"].passed

    SessionHarness(Host()).run(scenario)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`\.?(?:harness\.)?(?:calls\.)?(?:await \.)?(\w+)\(", README))))
def test_every_function_named_is_there(name: str) -> None:
    owners = (kit, pipelines, Caller, SessionHarness, Harnesses, ExpectMessage, ExpectCall, ExpectHandoff, ScriptedLLM)
    known = any(hasattr(owner, name) for owner in owners)
    assert known or name == "main", f"README.md names {name}(), which nothing in the kit has"
