"""The extra of calls: the data that a server needs back with them goes back to it, and to no other server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.chat import assistant, call, output, user
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.call_extra import pack_extra
from vivavoce.pipelines.llm.chat_context import ChatItem, FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.plugins import openai
from vivavoce.plugins.openai.options import Api
from vivavoce.plugins.openai.twin import (
    Answer,
    OpenAITwin,
    Step,
    chat_answer,
    chat_call,
    chat_delta,
    chat_end,
    responses_answer,
    responses_call,
    responses_end,
    responses_event,
)

Read = Callable[[openai.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Ask = Callable[..., GenerateRequest]
MakeLLM = Callable[..., openai.LLM]

ASKED = user("Book a table")
SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}
"""As Gemini sends it in its chat completions."""


def thought(index: int, text: str) -> Step:
    """Return the event of a reasoning item that is whole."""
    item = {"type": "reasoning", "id": f"rs_{index}", "summary": [], "status": "completed", "encrypted_content": text}
    return responses_event("response.output_item.done", output_index=index, item=item)


def signed_call(index: int, call_id: str, extra_content: object) -> Step:
    fields = {"index": index, "id": call_id, "function": {"name": "book", "arguments": "{}"}}
    return chat_delta(tool_calls=[{**fields, "extra_content": extra_content}])


@pytest.fixture
def made(server: OpenAITwin, make_llm: MakeLLM, answer: Read, ask: Ask) -> Callable[..., Awaitable[list[ChatItem]]]:
    """Return a function that lets the server answer with steps and returns the calls of the answer, as in a history."""

    async def run(*steps: Step, api: Api = "chat") -> list[ChatItem]:
        server.add(Answer(steps=steps))
        events = await answer(make_llm(api=api), ask(ASKED))
        calls = [event for event in events if isinstance(event, ToolCall)]
        return [call(one.call_id, one.name, one.arguments, extra=one.extra) for one in calls]

    return run


Made = Callable[..., Awaitable[list[ChatItem]]]


@pytest.fixture
def sent(server: OpenAITwin, make_llm: MakeLLM, answer: Read, ask: Ask) -> Callable[..., Awaitable[Any]]:
    """Return a function that sends a history and returns the messages or items that the server got."""

    async def send(*items: ChatItem, api: Api = "chat", options: openai.LLMOptions | None = None) -> Any:
        server.add(chat_answer("Hi.") if api == "chat" else responses_answer("Hi."))
        await answer(make_llm(api=api, options=options), ask(*items))
        return server.bodies[-1]["messages" if api == "chat" else "input"]

    return send


Sent = Callable[..., Awaitable[Any]]


async def test_the_signature_of_a_call_goes_back_where_it_was(made: Made, sent: Sent) -> None:
    first, second = await made(signed_call(0, "a", SIGNED), chat_call(1, "b", "book", "{}"), *chat_end("tool_calls"))
    messages = await sent(ASKED, first, second, output("a"), output("b"), assistant("Done."), user("Thanks"))
    assert [one.get("extra_content") for one in messages[1]["tool_calls"]] == [SIGNED, None]


async def test_the_reasoning_of_a_message_with_calls_goes_back_with_it(made: Made, sent: Sent) -> None:
    chunks = [chat_delta(reasoning_content=text) for text in ("They want ", "a table.")]
    calls = (chat_call(0, "a", "book", "{}"), chat_call(1, "b", "book", "{}"))
    first, second = await made(*chunks, chat_delta(content="A moment."), *calls, *chat_end("tool_calls"))
    messages = await sent(ASKED, assistant("A moment."), first, second, output("a"), output("b"))
    assert messages[1]["reasoning_content"] == "They want a table."
    assert messages[1]["content"] == "A moment."
    assert len(messages[1]["tool_calls"]) == 2


async def test_empty_reasoning_of_a_message_with_calls_goes_back_too(made: Made, sent: Sent) -> None:
    """DeepSeek refuses a message with calls that lacks the field."""
    (one,) = await made(chat_delta(reasoning_content=""), chat_call(0, "a", "book", "{}"), *chat_end("tool_calls"))
    assert (await sent(ASKED, one, output("a")))[1]["reasoning_content"] == ""


async def test_encrypted_reasoning_goes_back_before_the_call_that_it_led_to(made: Made, sent: Sent) -> None:
    first, second = await made(
        thought(0, "one"),
        *responses_call(1, "a", "book", "{}"),
        thought(2, "two"),
        *responses_call(3, "b", "book", "{}"),
        responses_end(),
        api="responses",
    )
    items = await sent(ASKED, first, second, output("a"), output("b"), api="responses")
    assert [item["type"] for item in items[1:5]] == ["reasoning", "function_call"] * 2
    assert items[1] == {"type": "reasoning", "summary": [], "encrypted_content": "one"}
    assert [item["encrypted_content"] for item in items if item["type"] == "reasoning"] == ["one", "two"]


async def test_reasoning_of_earlier_turns_does_not_go_back(made: Made, sent: Sent) -> None:
    """A server that cannot read it refuses the request, and would refuse each later one."""
    (one,) = await made(thought(0, "one"), *responses_call(1, "a", "book", "{}"), responses_end(), api="responses")
    items = await sent(ASKED, one, output("a"), assistant("Done."), user("Thanks"), api="responses")
    assert "reasoning" not in [item["type"] for item in items]


@pytest.mark.parametrize(
    ("effort", "dialect", "asks"),
    [("low", "openai", True), ("none", "openai", False), (None, "openai", False), ("low", "compatible", False)],
)
async def test_encrypted_reasoning_is_asked_for_where_the_model_reasons(
    sent: Sent, server: OpenAITwin, effort: str | None, dialect: Any, asks: bool
) -> None:
    options = openai.LLMOptions(dialect=dialect, reasoning_effort=effort)
    await sent(ASKED, api="responses", options=options)
    assert server.bodies[-1].get("include") == (["reasoning.encrypted_content"] if asks else None)


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    "extra",
    [
        "of another provider",
        "[1]",
        "[" * 50_000,
        pack_extra("openai https://api.openai.com/v1", {"extra_content": SIGNED, "reasoning": [{"type": "reasoning"}]}),
        pack_extra("anthropic", {"reasoning_content": "Hm."}),
    ],
    ids=["text", "list", "nested", "another server", "another provider"],
)
async def test_the_extra_of_another_server_is_not_sent(sent: Sent, api: Api, extra: str) -> None:
    plain = await sent(ASKED, call("a"), output("a"), api=api)
    assert await sent(ASKED, call("a", extra=extra), output("a"), api=api) == plain


@pytest.mark.parametrize("wrong", [5, "x", ["x"], None])
async def test_data_of_a_wrong_kind_is_passed_over(made: Made, wrong: object) -> None:
    (one,) = await made(
        chat_delta(reasoning_content=None if isinstance(wrong, str) else wrong),
        signed_call(0, "a", wrong),
        *chat_end("tool_calls"),
    )
    assert isinstance(one, FunctionCall)
    assert one.extra == ""


async def test_the_extra_names_the_server_without_its_password(server: OpenAITwin, answer: Read, ask: Ask) -> None:
    server.add(Answer(steps=[signed_call(0, "a", SIGNED), *chat_end("tool_calls")]))
    llm = openai.LLM(model="m", base_url=server.url.replace("://", "://user:hunter2@"))
    events = await answer(llm, ask(ASKED))
    await llm.aclose()
    (made,) = [event for event in events if isinstance(event, ToolCall)]
    assert json.loads(made.extra)["maker"] == f"openai {server.url}"
