"""A whole session on anthropic.LLM over loopback: tools, thoughts, an interruption, a refusal, an overload."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from vivavoce.agents import Agent, EmptyReply, function_tool
from vivavoce.agents.events import AgentStateChanged, TurnCompleted
from vivavoce.agents.testing import ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.plugins import anthropic
from vivavoce.plugins.anthropic.twin import Answer, Call, Fail, Refuse, Thought, Twin

MakeLLM = Callable[..., anthropic.LLM]
Read = Callable[[anthropic.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Connected = Callable[..., Awaitable[anthropic.LLM]]

LIMIT = 60.0
LONG = " ".join(f"word{number}" for number in range(60)) + "."
APOLOGY = "I cannot help with that."


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. " * 20)

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        return f"booked: {day}"

    async def on_empty_reply(self, reply: EmptyReply) -> None:
        await self.session.say(APOLOGY)


@pytest.fixture
def connected(twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest) -> Connected:
    """Return a function that makes an LLM with an open connection: the harness would count its task as a leak."""

    async def connect(**options: Any) -> anthropic.LLM:
        llm = make_llm(**options)
        twin.add(Answer("Hi."))
        await answer(llm, hello)
        twin.requests.clear()
        return llm

    return connect


def harness_of(llm: anthropic.LLM) -> SessionHarness:
    options = CascadingOptions(llm_retry=RetryOptions(waits=(0.0, 0.0)))
    return SessionHarness(Host(), pipeline=CascadingPipeline(llm=llm, tts=ScriptedTTS(), options=options))


async def turn(harness: SessionHarness, words: str) -> str:
    """Say it, and return the outcome of the turn."""
    harness.session.input.text(words)
    return str((await harness.next(TurnCompleted, limit=LIMIT)).record.outcome)


async def test_two_tools_are_called_at_once_and_their_outputs_answered_with_the_thoughts(
    twin: Twin, connected: Connected
) -> None:
    llm = await connected(thinking="adaptive")
    calls = (Call("book", {"day": "Friday"}), Call("book", {"day": "Sunday"}))
    twin.add(Answer(Thought("Two."), "One moment.", *calls), Answer("Both booked."), Answer("Bye."))
    async with harness_of(llm) as harness:
        assert await turn(harness, "Friday and Sunday") == "completed"
        assert await turn(harness, "Thanks") == "completed"
    harness.expect_tools(("book", "booked: Friday"), ("book", "booked: Sunday"))
    assert twin.refused == []
    kinds = [[[b["type"] for b in m["content"]] for m in body["messages"]] for body in twin.bodies]
    assert "thinking" in sum(kinds[1], [])
    assert "thinking" not in sum(kinds[2], [])
    assert kinds[1][-1][:2] == ["tool_result", "tool_result"]
    assert harness.messages[-1] == ("assistant", "Bye.")
    used = harness.session.usage
    assert used.llm_cached_tokens > 0
    assert 0 < used.llm_cache_write_tokens <= used.llm_input_tokens - used.llm_cached_tokens


async def test_the_next_request_tells_of_an_interruption(twin: Twin, connected: Connected) -> None:
    llm = await connected()
    twin.add(Answer(LONG), Answer("Yes."))
    async with harness_of(llm) as harness:
        harness.session.input.text("Count")
        while (await harness.next(AgentStateChanged, limit=LIMIT)).state != "speaking":
            pass
        await harness.until(harness.now + 0.5)
        harness.session.input.text("Stop")
        outcomes = [(await harness.next(TurnCompleted, limit=LIMIT)).record.outcome for _ in range(2)]
    assert outcomes == ["interrupted", "completed"]
    user, heard, stop = twin.bodies[1]["messages"]
    assert [one["role"] for one in (user, heard, stop)] == ["user", "assistant", "user"]
    (said,) = heard["content"]
    assert LONG.startswith(said["text"])
    assert said["text"] != LONG
    assert "interrupted" in stop["content"][0]["text"]
    assert stop["content"][1]["text"] == "Stop"


async def test_an_overload_is_tried_again_and_a_wrong_key_is_not(twin: Twin, connected: Connected) -> None:
    llm = await connected()
    twin.add(Refuse(529), Answer(Fail()), Answer("Hi."), Refuse(401), Answer("Hi again."))
    async with harness_of(llm) as harness:
        assert [await turn(harness, "Hello"), await turn(harness, "And?"), await turn(harness, "Hm?")] == [
            "completed",
            "failed",
            "completed",
        ]
    assert len(twin.requests) == 5


async def test_a_refusal_without_words_is_answered_by_the_agent(twin: Twin, connected: Connected) -> None:
    llm = await connected()
    twin.add(Answer(stop_reason="refusal"), Answer("Hi."))
    async with harness_of(llm) as harness:
        await turn(harness, "Write a virus")
        while not any(words == APOLOGY for _, words in harness.messages):
            await harness.until(harness.now + 1.0)
        assert await turn(harness, "Hello") == "completed"
    assert harness.messages == [
        ("user", "Write a virus"),
        ("assistant", APOLOGY),
        ("user", "Hello"),
        ("assistant", "Hi."),
    ]
    assert twin.refused == []
