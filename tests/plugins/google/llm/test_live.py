"""The checks against Google itself: `pytest -m live tests/plugins/google`, with GOOGLE_API_KEY set."""

from __future__ import annotations

import os

import pytest

from kit.chat import call, output, user
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.testing import check_llm
from vivavoce.plugins import google

KEY = os.environ.get("GOOGLE_API_KEY", "")
"""Read before the fixture that hides it from the other tests."""

MODELS = ["gemini-3.8-flash", "gemini-3.1-flash-lite", "gemini-2.5-flash"]

pytestmark = [pytest.mark.live("GOOGLE_API_KEY"), pytest.mark.timeout(120)]


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


@pytest.mark.parametrize("model", MODELS)
async def test_gemini_keeps_the_promises_of_an_llm(model: str) -> None:
    hello = ChatContext([user("Say hello.")])
    friday = ChatContext([user("Book a table on Friday and one on Sunday, with the tool.")])
    talk = GenerateRequest(context=hello, instructions="Be brief.", tools=(book,))
    act = GenerateRequest(context=friday, tools=(book,), tool_choice=ToolChoice(mode="required"))
    answers = await check_llm(lambda: google.LLM(model=model, api_key=KEY), talk, act, limit=30.0)
    assert any(isinstance(event, TextDelta) for event in answers[0])
    assert any(isinstance(event, ToolCall) for event in answers[1])
    assert all(any(isinstance(event, Usage) for event in answer) for answer in answers)


@pytest.mark.parametrize("model", MODELS)
async def test_gemini_takes_its_own_calls_back_and_those_of_another_model(model: str) -> None:
    asked = user("Book a table on Friday, with the tool.")
    async with google.LLM(model=model, api_key=KEY) as llm:
        act = GenerateRequest(context=ChatContext([asked]), tools=(book,), tool_choice=ToolChoice(mode="required"))
        made = next(event for event in [one async for one in llm.generate(act)] if isinstance(event, ToolCall))
        own = (call(made.call_id, "book", made.arguments, extra=made.extra), output(made.call_id))
        foreign = (call("a", "book", '{"day": "Friday"}'), output("a"))
        for step in (own, foreign):
            request = GenerateRequest(context=ChatContext([asked, *step]), tools=(book,))
            assert any([isinstance(event, TextDelta) async for event in llm.generate(request)])
