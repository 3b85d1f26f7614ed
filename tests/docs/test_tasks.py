"""docs/tasks.md: its agent runs, and its tables have every ready task with its arguments."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from vivavoce.agents import Agent, tasks
from vivavoce.agents.tasks.ready.confirmed import ConfirmedTask
from vivavoce.agents.tasks.task import TaskOutcome
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall

TEXT = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
QUESTION = ("assistant", "To which address may I send the bill?")
COMMON = {"question", "extra_instructions", "confirms", "options"}
READY = {
    name
    for name in tasks.__all__
    if inspect.isclass(kind := getattr(tasks, name)) and issubclass(kind, ConfirmedTask) and kind is not ConfirmedTask
}


def host() -> Agent:
    """Return the agent that the page shows."""
    shown: dict[str, Any] = {}
    (snippet,) = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S)
    exec(snippet, shown)
    made = shown["Host"]("Be brief.")
    assert isinstance(made, Agent)
    return made


def rows(head: str) -> dict[str, list[str]]:
    """Return the code of each cell in the table whose first head it is, by the code of the first cell."""
    (table,) = re.findall(rf"^\| {head} \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, flags=re.M)
    cells = [[re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    return {first[0]: [code for cell in rest for code in cell] for first, *rest in cells}


def test_a_caller_who_declines_hears_that_there_is_no_bill() -> None:
    decline = ToolCall(call_id="1", name="decline", arguments='{"reason": "not by mail"}')
    harness = SessionHarness(host(), ScriptedLLM([decline]))
    harness.caller.says("I give no address", 4.0, 5.0)
    harness.run(until=12.0)
    assert harness.messages == [
        QUESTION,
        ("user", "I give no address"),
        ("assistant", "Then there is no bill. How can I help?"),
    ]


def test_a_caller_who_confirms_an_address_gets_the_bill_there() -> None:
    give = ToolCall(call_id="1", name="give_email", arguments='{"address": "ann at example dot com"}')
    confirm = ToolCall(call_id="2", name="confirm", arguments="{}")
    harness = SessionHarness(host(), ScriptedLLM([give], "Is it ann@example.com?", [confirm]))
    harness.caller.says("ann at example dot com", 4.0, 6.0)
    harness.caller.says("yes", 12.0, 12.5)
    harness.run(until=20.0)
    assert harness.messages[-1] == ("assistant", "The bill goes to ann@example.com. How can I help?")


def test_without_the_try_on_enter_ends_and_the_caller_hears_nothing() -> None:
    class Trusting(Agent):
        async def on_enter(self) -> None:
            await tasks.GetEmailAddress(question=QUESTION[1])
            await self.session.say("How can I help?")

    decline = ToolCall(call_id="1", name="decline", arguments='{"reason": "not by mail"}')
    harness = SessionHarness(Trusting("Be brief."), ScriptedLLM([decline]))
    harness.expects_error("hook")
    harness.caller.says("I give no address", 4.0, 5.0)
    harness.run(until=30.0)
    assert harness.messages == [QUESTION, ("user", "I give no address")]


def test_the_table_has_every_ready_task_with_arguments_that_it_takes() -> None:
    told = rows("task")
    assert {call.partition("(")[0] for call in told} == READY | {"TaskGroup"}
    for call, others in told.items():
        name, own = call.partition("(")[0], [code for code in others if code.isidentifier() and code.islower()]
        eval(call, {name: getattr(tasks, name)})  # it is made as the page shows it
        if name in READY:
            assert set(inspect.signature(getattr(tasks, name)).parameters) - COMMON <= set(own), name
    (add,) = [code for code in told["TaskGroup()"] if code.startswith("group.add(")]
    node = ast.parse(add, mode="eval").body
    assert isinstance(node, ast.Call)
    inspect.signature(tasks.TaskGroup.add).bind(None, *node.args, **{str(one.arg): None for one in node.keywords})


def test_the_arguments_that_all_have_are_those_of_the_second_table() -> None:
    assert set(rows("argument")) == COMMON
    for name in READY:
        missing = COMMON - set(inspect.signature(getattr(tasks, name)).parameters)
        assert missing == ({"confirms"} if name == "AskYesOrNo" else set()), name


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("complete(result)", "completed"),
        ('decline("reason")', "declined"),
        ("fail(error)", "failed"),
        ("cancel()", "cancelled"),
    ],
)
def test_the_calls_that_end_a_task_of_one_s_own_end_it_as_the_table_says(end: str, outcome: str) -> None:
    (cells,) = [cells for call, cells in rows("call").items() if call == f"self.{end}"]
    assert outcome == "completed" or outcome in cells
    ended: list[str] = []
    causes: list[BaseException | None] = []

    class Ends(tasks.AgentTask[str]):
        async def on_enter(self) -> None:
            eval(f"self.{end}", {"self": self, "result": "friday", "error": KeyError("day")})

    class Asks(Agent):
        async def on_enter(self) -> None:
            try:
                ended.append(await Ends("Ask for the day."))
            except tasks.TaskError as error:
                ended.append(error.outcome)
                causes.append(error.__cause__)

    SessionHarness(Asks("Be brief."), ScriptedLLM()).run(until=2.0)
    assert ended == ["friday" if outcome == "completed" else outcome]
    assert any(isinstance(cause, KeyError) for cause in causes) == (outcome == "failed")


def test_the_outcomes_without_a_result_are_listed() -> None:
    assert set(get_args(TaskOutcome)) - {"completed"} <= set(re.findall(r"`(\w+)`", TEXT))
