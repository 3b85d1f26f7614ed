"""Scenario 28: the floor is the caller's from the onset of a turn to its commit or drop."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    CompletedTurn,
    RunContext,
    SessionOptions,
    SpeechHandle,
    SpeechLimits,
    StopResponse,
    function_tool,
)
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall


def request_text(harness: SessionHarness, request: int) -> str:
    """Return all text in that request to the model, except the tools."""
    asked = harness.llm.requests[request]
    texts = [item.content for item in asked.context.items if isinstance(item, ChatMessage)]
    return " | ".join([*texts, asked.instructions, asked.extra_instructions])


def test_a_timers_say_waits_for_the_caller_and_is_heard_before_the_answer() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, "For how many?"]))
    harness.caller.says("a table please", 0.5, 2.5)

    async def timer(harness: SessionHarness) -> None:
        await harness.until(1.0)
        handle = harness.session.say("Two minutes left.", when_busy="queue")
        await handle
        assert handle.outcome == "completed"

    harness.run(timer, until=7.0)
    harness.expect_history(
        ("user", "a table please"), ("assistant", "Two minutes left."), ("assistant", "For how many?")
    )
    agent = [(state, at) for who, state, at in harness.states if who == "agent"]
    assert [state for state, _ in agent] == [
        *("starting", "idle", "listening", "thinking", "speaking", "thinking", "speaking", "idle"),
        *("closing", "closed"),
    ]
    assert dict(agent[:5])["speaking"] >= 2.9
    assert "Two minutes left." in request_text(harness, 0)


def test_a_greeting_waits_for_a_caller_who_speaks_first() -> None:
    class Greeter(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Welcome.")

    class Desk(Agent):
        @function_tool
        async def pass_on(self) -> Agent:
            """Hand over."""
            return Greeter("Help.")

    harness = SessionHarness(
        Desk("Help."), ScriptedLLM([0.1, ToolCall(call_id="c1", name="pass_on", arguments="{}")], [0.1, "Gladly."])
    )
    harness.caller.says("sales please", 0.5, 1.5)
    harness.caller.says("are you there", 1.92, 3.5)
    harness.run(until=8.0)
    assert harness.messages[:1] == [("user", "sales please")]
    assert ("assistant", "Welcome.") in harness.messages
    speaking = [at for who, state, at in harness.states if (who, state) == ("agent", "speaking")]
    assert min(speaking) >= 3.9


def test_a_reply_by_default_waits_for_the_caller_and_comes_after_the_answer_and_a_discard_is_discarded() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, "For how many?"], [0.1, "We close at ten."]))
    harness.caller.says("a table please", 0.5, 2.5)
    handles: list[SpeechHandle] = []

    async def timer(harness: SessionHarness) -> None:
        await harness.until(1.0)
        handles.append(harness.session.reply("Say when we close."))
        handles.append(harness.session.say("No matter.", when_busy="discard"))
        handles.append(harness.session.reply("No matter.", when_busy="discard"))

    harness.run(timer, until=9.0)
    assert [handle.outcome for handle in handles] == ["completed", "discarded", "discarded"]
    harness.expect_history(
        ("user", "a table please"), ("assistant", "For how many?"), ("assistant", "We close at ten.")
    )


def test_an_interrupt_speaks_over_the_caller_and_what_the_caller_was_saying_is_answered() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, "For how many?"]))
    harness.caller.says("a table please", 0.5, 2.5)

    async def alarm(harness: SessionHarness) -> None:
        await harness.until(1.0)
        handle = harness.session.say("Fire, leave the house.", when_busy="interrupt")
        await handle
        assert handle.outcome == "completed"

    harness.run(alarm, until=7.0)
    speaking = [at for who, state, at in harness.states if (who, state) == ("agent", "speaking")]
    assert speaking[0] == pytest.approx(1.2, abs=0.05)
    assert sorted(harness.messages) == [
        ("assistant", "Fire, leave the house."),
        ("assistant", "For how many?"),
        ("user", "a table please"),
    ]


def test_a_filler_of_a_tool_that_is_done_by_then_and_a_wake_up_are_not_said_after_the_turn() -> None:
    class Searcher(Agent):
        @function_tool
        async def search(self, context: RunContext) -> str:
            """Search."""
            await anyio.sleep(1.5)
            self.filler = self.session.say("I am still searching.")
            await anyio.sleep(0.2)
            return "found"

    agent = Searcher("Help.")
    harness = SessionHarness(
        agent,
        ScriptedLLM(
            [0.1, ToolCall(call_id="c1", name="search", arguments="{}")], [0.1, "Anything else?"], [0.1, "Found it."]
        ),
    )
    harness.caller.says("search please", 0.5, 1.5)
    harness.caller.says("and something else", 2.8, 4.4)
    harness.run(until=10.0)
    assert agent.filler.outcome == "discarded"
    assert ("assistant", "I am still searching.") not in harness.messages


# --- hooks


class Hooked(Agent):
    """Says something in `on_user_turn_completed`, in the way that a test wants."""

    def __init__(self, way: str, seconds: float = 0.0) -> None:
        super().__init__("Help.")
        self.way = way
        self.handles: list[Any] = []

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        self.handles.append(handle := self.session.say("Let me think about that."))
        if self.way == "await":
            await handle
        elif self.way == "stop":
            raise StopResponse
        elif self.way == "interrupt":
            _ = self.session.interrupt()


@pytest.mark.parametrize("way", ["await", "leave"])
def test_what_a_hook_says_is_heard_before_the_answer_awaited_or_not(way: str) -> None:
    agent = Hooked(way)
    harness = SessionHarness(agent, ScriptedLLM([0.1, "For how many?"]))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=8.0)
    harness.expect_history(
        ("user", "a table please"), ("assistant", "Let me think about that."), ("assistant", "For how many?")
    )
    first, second = [at for who, state, at in harness.states if (who, state) == ("agent", "speaking")]
    assert first == pytest.approx(2.1, abs=0.05)
    assert "Let me think about that." in request_text(harness, 0)
    assert second - first < 2.0


def test_stop_response_drops_the_answer_and_not_what_the_hook_said() -> None:
    agent = Hooked("stop")
    harness = SessionHarness(agent, ScriptedLLM([0.1, "For how many?"]))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=8.0)
    assert ("assistant", "Let me think about that.") in harness.messages
    assert ("assistant", "For how many?") not in harness.messages


def test_an_interrupt_in_the_hook_stops_what_it_said_and_the_answer_is_heard() -> None:
    agent = Hooked("interrupt")
    harness = SessionHarness(agent, ScriptedLLM([0.1, "For how many?"]))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=8.0)
    assert agent.handles[0].outcome in ("cancelled", "interrupted")
    harness.expect_history(("user", "a table please"), ("assistant", "For how many?"))


def test_an_interrupt_from_elsewhere_cancels_the_answer_too() -> None:
    agent = Hooked("await")
    harness = SessionHarness(agent, ScriptedLLM([0.1, "For how many?"]))
    harness.caller.says("a table please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.6)
        await harness.session.interrupt()

    harness.run(scenario, until=8.0)
    assert ("assistant", "For how many?") not in harness.messages


def test_the_hooks_limit_stands_still_while_its_speech_goes_on() -> None:
    class Slow(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await anyio.sleep(0.4)
            for _ in range(3):
                await self.session.say("One two three four five six.")
            await anyio.sleep(0.4)
            turn.text = "edited"
            await anyio.sleep(0.4)
            turn.text = "too late"

    harness = SessionHarness(
        Slow("Help."),
        ScriptedLLM([0.1, "For how many?"]),
        options=SessionOptions(speech=SpeechLimits(hook_timeout=1.0)),
    )
    harness.caller.says("a table please", 0.5, 1.5)
    harness.expects_error("hook")
    harness.run(until=12.0)
    assert harness.messages[0] == ("user", "edited")
    assert harness.messages[-1] == ("assistant", "For how many?")


def test_words_after_the_hooks_speech_was_heard_are_a_turn_of_their_own_and_before_it_they_merge() -> None:
    heard = SessionHarness(Hooked("await"), ScriptedLLM([0.1, "Never said."], [0.1, "For how many?"]))
    heard.caller.says("a table please", 0.5, 1.5)
    heard.caller.says("for two", 2.5, 3.5)
    heard.run(until=10.0)
    assert [text for role, text in heard.messages if role == "user"] == ["a table please", "for two"]
    early = SessionHarness(Hooked("await"), ScriptedLLM([0.1, "For how many?"]))
    early.caller.says("a table please", 0.5, 1.5)
    early.caller.says("for two", 1.96, 2.6)
    early.run(until=10.0)
    assert [text for role, text in early.messages if role == "user"] == ["a table please for two"]
