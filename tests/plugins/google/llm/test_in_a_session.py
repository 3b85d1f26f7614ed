"""A whole session on google.LLM over loopback: tools, a fallback, an interruption, a refusal, an overload."""

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
from vivavoce.pipelines.llm.fallback import FallbackLLM
from vivavoce.plugins import google
from vivavoce.plugins.google.twin import Answer, Call, Refuse, Thought, Twin

MakeLLM = Callable[..., google.LLM]
Read = Callable[[google.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Connected = Callable[..., Awaitable[google.LLM]]

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

    async def connect(**options: Any) -> google.LLM:
        llm = make_llm(**options)
        twin.add(Answer("Hi."))
        await answer(llm, hello)
        twin.requests.clear()
        return llm

    return connect


def harness_of(llm: google.LLM) -> SessionHarness:
    options = CascadingOptions(llm_retry=RetryOptions(waits=(0.0, 0.0)))
    return SessionHarness(Host(), pipeline=CascadingPipeline(llm=llm, tts=ScriptedTTS(), options=options))


async def turn(harness: SessionHarness, words: str) -> str:
    """Say it, and return the outcome of the turn."""
    harness.session.input.text(words)
    return str((await harness.next(TurnCompleted, limit=LIMIT)).record.outcome)


def words(body: Any) -> list[tuple[str, list[str]]]:
    """Return the contents as roles and texts, or kinds of other parts."""
    return [(one["role"], [part.get("text", next(iter(part))) for part in one["parts"]]) for one in body["contents"]]


async def test_two_tools_are_called_at_once_and_their_outputs_answered_with_the_signature(
    twin: Twin, connected: Connected
) -> None:
    llm = await connected()
    calls = (Call("book", {"day": "Friday"}), Call("book", {"day": "Sunday"}))
    twin.add(Answer(Thought("Two."), "One moment.", *calls), Answer("Both booked."), Answer("Bye."))
    async with harness_of(llm) as harness:
        assert await turn(harness, "Friday and Sunday") == "completed"
        assert await turn(harness, "Thanks") == "completed"
    harness.expect_tools(("book", "booked: Friday"), ("book", "booked: Sunday"))
    assert twin.refused == []
    assert words(twin.bodies[1])[1:] == [
        ("model", ["One moment.", "functionCall", "functionCall"]),
        ("user", ["functionResponse", "functionResponse"]),
    ]
    assert harness.messages[-1] == ("assistant", "Bye.")
    assert harness.session.usage.llm_cached_tokens > 0


async def test_a_conversation_goes_on_with_another_model_behind_the_calls_of_the_first(
    twin: Twin, connected: Connected
) -> None:
    """A fallback asks the second model with the calls of the first one, whose signatures it would refuse."""
    llm = await connected()
    fallback = FallbackLLM([llm, await connected(model="gemini-3.1-flash-lite")])
    twin.add(Answer(Call("book", {"day": "Friday"})), Refuse(code=400), Answer("Booked."))
    options = CascadingOptions(llm_retry=RetryOptions(waits=()))
    pipeline = CascadingPipeline(llm=fallback, tts=ScriptedTTS(), options=options)
    async with SessionHarness(Host(), pipeline=pipeline) as harness:
        assert await turn(harness, "Friday") == "completed"
    assert harness.messages[-1] == ("assistant", "Booked.")
    assert [request.model for request in twin.requests] == ["gemini-3.8-flash"] * 2 + ["gemini-3.1-flash-lite"]
    assert twin.refused == []


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
    user, (role, (heard,)), (_, stop) = words(twin.bodies[1])
    assert (user, role) == (("user", ["Count"]), "model")
    assert LONG.startswith(heard)
    assert heard != LONG
    assert "interrupted" in stop[0]
    assert stop[1] == "Stop"


async def test_an_overload_is_tried_again_and_a_wrong_key_is_not(twin: Twin, connected: Connected) -> None:
    llm = await connected()
    twin.add(Refuse(code=503), Answer(finish_reason="MALFORMED_FUNCTION_CALL"), Answer("Hi."))
    twin.add(Refuse(code=400, reason="API_KEY_INVALID"), Answer("Hi again."))
    async with harness_of(llm) as harness:
        assert [await turn(harness, "Hello"), await turn(harness, "And?"), await turn(harness, "Hm?")] == [
            "completed",
            "failed",
            "completed",
        ]
    assert len(twin.requests) == 5


async def test_a_withheld_answer_without_words_is_answered_by_the_agent(twin: Twin, connected: Connected) -> None:
    llm = await connected()
    twin.add(Answer(block_reason="PROHIBITED_CONTENT"), Answer("Hi."))
    async with harness_of(llm) as harness:
        await turn(harness, "Write a virus")
        while not any(said == APOLOGY for _, said in harness.messages):
            await harness.until(harness.now + 1.0)
        assert await turn(harness, "Hello") == "completed"
    assert harness.messages == [
        ("user", "Write a virus"),
        ("assistant", APOLOGY),
        ("user", "Hello"),
        ("assistant", "Hi."),
    ]
    assert twin.refused == []
