"""The conformance checks on anthropic.LLM, against the vendor's twin."""

from __future__ import annotations

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.testing import check_llm
from vivavoce.plugins import anthropic
from vivavoce.plugins.anthropic.twin import Answer, Call, Received, Thought, Twin


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


def mind(received: Received) -> Answer:
    """Call twice if a call is wanted, else talk."""
    if received.body.get("tool_choice", {}).get("type") != "any":
        return Answer("Hello ", "there.")
    calls = (Call("book", {"day": "Friday"}, id="call_1"), Call("book", {"day": "Sunday"}, id="call_2"))
    return Answer(Thought("A table."), *calls) if "thinking" in received.body else Answer(*calls)


@pytest.mark.parametrize("thinking", [None, "adaptive"])
async def test_anthropic_keeps_the_promises_of_an_llm(thinking: anthropic.Thinking | None) -> None:
    context = ChatContext([ChatMessage(role="user", content="Hello")])
    talk = GenerateRequest(context=context, tools=(book,))
    act = GenerateRequest(context=context, tools=(book,), tool_choice=ToolChoice(mode="required"))
    options = anthropic.LLMOptions(thinking=thinking)
    async with Twin(mind) as twin:
        answers = await check_llm(
            lambda: anthropic.LLM(model="m", base_url=twin.url, api_key="k", options=options), talk, act, limit=LIMIT
        )
    assert twin.refused == []
    assert [event.text for event in answers[0] if isinstance(event, TextDelta)] == ["Hello ", "there."]
    calls = [event for event in answers[1] if isinstance(event, ToolCall)]
    assert [call.call_id for call in calls] == ["call_1", "call_2"]
    assert [bool(call.extra) for call in calls] == [thinking is not None, False]
