"""Scenario 16, slow tools: their speech meanwhile, and their protection of the speech that called."""

from __future__ import annotations

import threading
from typing import Any

import anyio

from vivavoce.agents import Agent, RunContext, function_tool
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import StepItem

LONG = "One two three four five six seven eight nine ten eleven twelve. "
"""Played from 2.2 on, for some five seconds."""


def kinds(harness: SessionHarness) -> list[str]:
    return [
        item.content if isinstance(item, ChatMessage) else type(item).__name__ for item in harness.session.history.items
    ]


def pending_output(harness: SessionHarness, request: int) -> str:
    (output,) = [i.output for i in harness.llm.requests[request].context.items if isinstance(i, FunctionCallOutput)]
    return output


class Searcher(Agent):
    """Slow tools that report their progress."""

    def __init__(self) -> None:
        super().__init__("Help.")
        self.release = threading.Event()
        self.late: list[str] = []

    @function_tool
    async def search(self, context: RunContext) -> str:
        """Search, and say so."""
        _ = context.update("One moment.")
        await anyio.sleep(4.0)
        return "found"

    @function_tool
    async def report(self, context: RunContext) -> str:
        """Tell how it goes twice, each time to its end."""
        await context.update("Half of it.")
        await context.update("All of it.")
        return "done"

    @function_tool
    async def pay(self, context: RunContext) -> str:
        """Make a payment, which cannot be undone."""
        context.disallow_interruptions()
        await anyio.sleep(0.5)
        return "paid"

    @function_tool
    def pay_in_a_thread(self, context: RunContext) -> str:
        """Make a payment, which cannot be undone, in a thread."""
        context.disallow_interruptions()
        _ = context.update("Paying.")
        return "paid"

    @function_tool(timeout=0.05)
    def hangs(self, context: RunContext) -> str:
        """Hang in a thread, and speak after the wait for it has ended."""
        self.release.wait(10)
        try:
            _ = context.update("Here I am.")
        except SessionError as error:
            self.late.append(str(error))
        return "late"


def search(name: str, *answers: Any, before: str = "", agent: Agent | None = None) -> SessionHarness:
    """The caller asks, committed at 1.9; the model calls `name` at 2.0."""
    call = ToolCall(call_id="c1", name=name, arguments="{}")
    step: list[StepItem] = [before, call] if before else [call]
    harness = SessionHarness(agent or Searcher(), ScriptedLLM(step, *(answers or ("Found it.",)), delay=0.1))
    harness.caller.says("please do it", 0.5, 1.5)
    return harness


def test_a_slow_tool_says_how_it_goes_while_it_works_on() -> None:
    harness = search("search").run(until=9.0)
    harness.expect_states(
        "agent",
        ("listening", 0.5),
        ("thinking", 1.9),
        ("speaking", 2.2),
        ("thinking", 2.6),
        ("speaking", 6.3),
        ("idle", 6.7),
    ).expect_played((2.2, 0.4), (6.3, 0.4))
    assert kinds(harness) == ["please do it", "One moment.", "FunctionCall", "FunctionCallOutput", "Found it."]
    harness.expect_outcomes("completed", "completed").expect_tools(("search", "found"))


def test_an_update_waits_for_what_was_said_before_the_call_and_may_be_awaited() -> None:
    harness = search("report", "Ready.", before="Let me see.").run(until=9.0)
    said = [text for role, text in harness.messages if role == "assistant"]
    assert said == ["Let me see.", "Half of it.", "All of it.", "Ready."]
    harness.expect_tools(("report", "done"))


def test_a_model_that_is_asked_meanwhile_knows_what_the_caller_was_told() -> None:
    harness = search("search", "I am at it.", "Found it.")
    harness.caller.says("are you there", 3.0, 3.8)
    harness.run(until=12.0)
    assert "still running" in pending_output(harness, 1)
    assert pending_output(harness, 1).endswith("The caller was told: 'One moment.'")
    harness.expect_tools(("search", "found"))


def test_an_update_is_cut_like_any_speech_and_the_tool_works_on() -> None:
    class Talker(Agent):
        @function_tool
        async def search(self, context: RunContext) -> str:
            """Talk long."""
            _ = context.update(LONG)
            await anyio.sleep(6.0)
            return "found"

    harness = search("search", "All right.", "Found it.", agent=Talker("Help."))
    harness.caller.says("no stop please", 3.0, 4.0)
    harness.run(until=16.0)
    (cut,) = [item for item in harness.session.history.items if isinstance(item, ChatMessage) and item.interrupted]
    assert LONG.startswith(cut.content)
    harness.expect_tools(("search", "found"))
    assert harness.messages[-1] == ("assistant", "Found it.")


def test_a_speech_whose_tool_protects_it_is_heard_to_its_end_and_the_words_are_answered_then() -> None:
    harness = search("pay", "It is paid.", "You are welcome.", before=LONG.strip())
    harness.caller.says("no stop please", 3.0, 4.0)
    harness.run(until=20.0)
    harness.expect_history(
        ("user", "please do it"),
        ("assistant", LONG.strip()),
        ("assistant", "It is paid."),
        ("user", "no stop please"),
        ("assistant", "You are welcome."),
    ).expect_outcomes("completed", "completed")


def test_a_tool_in_a_thread_may_protect_its_speech_and_its_updates_are_protected_too() -> None:
    harness = search("pay_in_a_thread", "It is paid.")

    async def interrupt(harness: SessionHarness) -> None:
        for moment in (2.25, 2.7):  # in the update, in the answer
            await harness.until(moment)
            await harness.session.interrupt()

    harness.run(interrupt, until=6.0)
    harness.expect_history(("user", "please do it"), ("assistant", "Paying."), ("assistant", "It is paid."))
    harness.expect_outcomes("completed", "completed")


def test_a_thread_past_its_timeout_is_counted_and_can_say_nothing_any_more() -> None:
    agent = Searcher()

    async def main() -> None:  # real time: virtual time stands still while a thread works
        call = ToolCall(call_id="c1", name="hangs", arguments="{}")
        async with SessionHarness(agent, ScriptedLLM([call], "It hangs.")) as harness:  # the caller says nothing
            await harness.session.reply("Go on.")
            agent.release.set()
            with anyio.fail_after(60):
                while not agent.late:  # noqa: ASYNC110 - a thread that nobody waits for
                    await anyio.sleep(0.01)
        harness.expect_tools(("hangs", "The tool did not answer within 0.05 seconds."))
        assert "Here I am." not in dict(harness.messages).values()

    anyio.run(main)
    assert "is over" in agent.late[0]
