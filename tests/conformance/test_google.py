"""The conformance checks on google.LLM, against the vendor's twin."""

from __future__ import annotations

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.testing import check_llm
from vivavoce.plugins import google
from vivavoce.plugins.google.twin import Answer, Call, Received, Thought, Twin


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


def mind(received: Received) -> Answer:
    """Call twice if a call is wanted, else talk."""
    if received.body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode") != "ANY":
        return Answer("Hello ", "there.")
    return Answer(Thought("A table."), Call("book", {"day": "Friday"}), Call("book", {"day": "Sunday"}))


@pytest.mark.parametrize("model", ["gemini-3.8-flash", "gemini-2.5-flash"])
async def test_gemini_keeps_the_promises_of_an_llm(model: str) -> None:
    context = ChatContext([ChatMessage(role="user", content="Hello")])
    talk = GenerateRequest(context=context, tools=(book,))
    act = GenerateRequest(context=context, tools=(book,), tool_choice=ToolChoice(mode="required"))
    async with Twin(mind) as twin:
        answers = await check_llm(
            lambda: google.LLM(model=model, base_url=twin.url, api_key="k"), talk, act, limit=LIMIT
        )
    assert twin.refused == []
    assert [event.text for event in answers[0] if isinstance(event, TextDelta)] == ["Hello ", "there."]
    calls = [event for event in answers[1] if isinstance(event, ToolCall)]
    assert [call.arguments for call in calls] == ['{"day": "Friday"}', '{"day": "Sunday"}']
    assert [bool(call.extra) for call in calls] == [model == "gemini-3.8-flash", False]
