"""The checks against Anthropic itself: `pytest -m live tests/plugins/anthropic`, with ANTHROPIC_API_KEY set."""

from __future__ import annotations

import os

import pytest

from kit.chat import user
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.testing import check_llm
from vivavoce.plugins import anthropic

KEY = os.environ.get("ANTHROPIC_API_KEY", "")
"""Read before the fixture that hides it from the other tests."""

pytestmark = [pytest.mark.live("ANTHROPIC_API_KEY"), pytest.mark.timeout(120)]


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


@pytest.mark.parametrize("thinking", ["disabled", "adaptive"])
async def test_claude_keeps_the_promises_of_an_llm(thinking: anthropic.Thinking) -> None:
    hello = ChatContext([user("Say hello.")])
    friday = ChatContext([user("Book a table on Friday and one on Sunday, with the tool.")])
    talk = GenerateRequest(context=hello, instructions="Be brief.", tools=(book,))
    act = GenerateRequest(context=friday, tools=(book,), tool_choice=ToolChoice(mode="required"))
    options = anthropic.LLMOptions(thinking=thinking)
    answers = await check_llm(lambda: anthropic.LLM(api_key=KEY, options=options), talk, act, limit=30.0)
    assert any(isinstance(event, TextDelta) for event in answers[0])
    assert any(isinstance(event, ToolCall) for event in answers[1])
    assert all(any(isinstance(event, Usage) for event in answer) for answer in answers)
