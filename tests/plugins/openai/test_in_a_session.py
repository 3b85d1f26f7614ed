"""A whole session on openai.LLM over loopback: a tool call, an interruption, a failed turn and the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.events import AgentStateChanged, TurnCompleted
from vivavoce.agents.testing import ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.plugins import openai
from vivavoce.plugins.openai.options import Api
from vivavoce.plugins.openai.twin import (
    Answer,
    OpenAITwin,
    chat_answer,
    chat_call,
    chat_delta,
    chat_end,
    refusal,
    responses_answer,
    responses_call,
    responses_end,
)

MakeLLM = Callable[..., openai.LLM]
Read = Callable[[openai.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Connected = Callable[..., Awaitable[openai.LLM]]

LIMIT = 60.0
LONG = " ".join(f"word{number}" for number in range(60)) + "."


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings.")

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        return f"booked: {day}"


@pytest.fixture
def connected(server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest) -> Connected:
    """Return a function that makes an LLM with an open connection: the harness would count the server's task as
    a leak.
    """

    async def connect(*, api: Api = "chat", options: openai.LLMOptions | None = None) -> openai.LLM:
        llm = make_llm(api=api, options=options)
        server.add(chat_answer("Hi.") if api == "chat" else responses_answer("Hi."))
        await answer(llm, hello)
        server.requests.clear()
        return llm

    return connect


def harness_of(llm: openai.LLM) -> SessionHarness:
    options = CascadingOptions(llm_retry=RetryOptions(waits=(0.0, 0.0)))
    return SessionHarness(Host(), pipeline=CascadingPipeline(llm=llm, tts=ScriptedTTS(), options=options))


CALLS: dict[Api, list[Answer]] = {
    "chat": [
        Answer(steps=[chat_call(0, "call_1", "book", '{"day": '), chat_call(0, None, None, '"Friday"}'), *chat_end()]),
        chat_answer("Done."),
    ],
    "responses": [
        Answer(steps=[*responses_call(0, "call_1", "book", '{"day": ', '"Friday"}'), responses_end()]),
        responses_answer("Done."),
    ],
}


@pytest.mark.parametrize("api", list(CALLS))
async def test_a_tool_is_called_and_its_output_answered(server: OpenAITwin, connected: Connected, api: Api) -> None:
    llm = await connected(api=api)
    server.add(*CALLS[api])
    async with harness_of(llm) as harness:
        harness.session.input.text("A table on Friday")
        await harness.next(TurnCompleted, limit=LIMIT)
    harness.expect_tools(("book", "booked: Friday"))
    harness.expect_history(("user", "A table on Friday"), ("assistant", "Done."))
    second = server.bodies[1]
    if api == "chat":
        user, call, output = second["messages"][-3:]
        assert (user["role"], call["tool_calls"][0]["id"], output["role"]) == ("user", "call_1", "tool")
        assert output["content"] == "booked: Friday"
    else:
        assert [item["type"] for item in second["input"]][-2:] == ["function_call", "function_call_output"]
        assert second["input"][-1]["output"] == "booked: Friday"
    assert harness.session.usage.llm_input_tokens == 24


async def test_the_step_behind_a_tool_and_the_next_turn_send_the_signature_of_the_call_back(
    server: OpenAITwin, connected: Connected
) -> None:
    llm = await connected()
    signature = {"google": {"thought_signature": "c2lnbmVk"}}
    call = {"index": 0, "id": "a", "function": {"name": "book", "arguments": '{"day": "Friday"}'}}
    signed = chat_delta(tool_calls=[{**call, "extra_content": signature}])
    server.add(Answer(steps=[signed, *chat_end("tool_calls")]), chat_answer("Done."), chat_answer("Bye."))
    async with harness_of(llm) as harness:
        for words in ("A table on Friday", "Thanks"):
            harness.session.input.text(words)
            await harness.next(TurnCompleted, limit=LIMIT)
    sent = [[m for m in body["messages"] if "tool_calls" in m] for body in server.bodies]
    assert [[m["tool_calls"][0].get("extra_content") for m in messages] for messages in sent] == [
        [],
        [signature],
        [signature],
    ]


async def test_the_next_request_tells_of_an_interruption(server: OpenAITwin, connected: Connected) -> None:
    llm = await connected(options=openai.LLMOptions(dialect="openai"))
    server.add(chat_answer(LONG), chat_answer("Yes."))
    async with harness_of(llm) as harness:
        harness.session.input.text("Count")
        while (await harness.next(AgentStateChanged, limit=LIMIT)).state != "speaking":
            pass
        await harness.until(harness.now + 0.5)
        harness.session.input.text("Stop")
        outcomes = [(await harness.next(TurnCompleted, limit=LIMIT)).record.outcome for _ in range(2)]
    assert outcomes == ["interrupted", "completed"]
    messages = server.bodies[1]["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "system", "user"]
    assert LONG.startswith(messages[2]["content"])
    assert messages[2]["content"] != LONG
    assert "interrupted" in messages[3]["content"]


async def test_after_a_failed_turn_the_next_one_is_answered(server: OpenAITwin, connected: Connected) -> None:
    llm = await connected()
    server.add(refusal(401, "wrong key"), refusal(500, "down"), chat_answer("Hi."))
    async with harness_of(llm) as harness:
        harness.session.input.text("Hello")
        first = await harness.next(TurnCompleted, limit=LIMIT)
        harness.session.input.text("Hello again")
        second = await harness.next(TurnCompleted, limit=LIMIT)
    assert (first.record.outcome, second.record.outcome) == ("failed", "completed")
    assert harness.messages[-1] == ("assistant", "Hi.")
    assert len(server.requests) == 3, "the failure of the server was tried again, the refusal was not"
