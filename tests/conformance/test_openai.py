"""The conformance checks on openai.LLM, both APIs, against a scripted server."""

from __future__ import annotations

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.testing import check_llm
from vivavoce.plugins import openai
from vivavoce.plugins.openai.options import Api
from vivavoce.plugins.openai.twin import (
    Answer,
    OpenAITwin,
    chat_answer,
    chat_call,
    chat_delta,
    chat_end,
    responses_answer,
    responses_call,
    responses_end,
    responses_event,
)


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "A table."}
ARGUMENTS = ('{"day": ', '"Friday"}')

ANSWERS: dict[Api, tuple[Answer, Answer]] = {
    "chat": (
        chat_answer("Hello ", "there."),
        Answer(
            steps=[
                chat_delta(role="assistant", content=None, reasoning_content="A table."),
                chat_call(0, "call_1", "book", ""),
                *(chat_call(0, None, None, part) for part in ARGUMENTS),
                chat_call(1, "call_2", "book", "".join(ARGUMENTS)),
                *chat_end("tool_calls"),
            ]
        ),
    ),
    "responses": (
        responses_answer("Hello ", "there."),
        Answer(
            steps=[
                responses_event("response.output_item.done", output_index=0, item=THOUGHT),
                *responses_call(1, "call_1", "book", *ARGUMENTS),
                *responses_call(2, "call_2", "book", *ARGUMENTS),
                responses_end(),
            ]
        ),
    ),
}


@pytest.mark.parametrize("api", list(ANSWERS))
async def test_openai_keeps_the_promises_of_an_llm(api: Api) -> None:
    context = ChatContext([ChatMessage(role="user", content="Hello")])
    talk = GenerateRequest(context=context, tools=(book,))
    act = GenerateRequest(context=context, tools=(book,), tool_choice=ToolChoice(mode="required"))
    async with OpenAITwin() as server:
        text, calls = ANSWERS[api]
        server.add(text, calls)
        server.default = text
        answers = await check_llm(lambda: openai.LLM(model="m", base_url=server.url, api=api), talk, act, limit=LIMIT)
    assert [event.text for event in answers[0] if isinstance(event, TextDelta)] == ["Hello ", "there."]
    assert [event.call_id for event in answers[1] if isinstance(event, ToolCall)] == ["call_1", "call_2"]
