"""plugins/rules keeps the promises of the LLM port."""

from __future__ import annotations

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall, function_tool
from vivavoce.pipelines.testing.checks_speaking import check_llm
from vivavoce.plugins import rules

TALK = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day? Any will do."),), tool="book", done="Booked."
)


@function_tool
async def book(day: str) -> str:
    """Book a table."""
    return day


def _request(words: str) -> GenerateRequest:
    return GenerateRequest(context=ChatContext([ChatMessage(role="user", content=words)]), tools=(book,))


@pytest.mark.parametrize("first", ["a table please", "on friday"])
async def test_the_rules_keep_the_promises_of_a_language_model(first: str) -> None:
    answers = await check_llm(lambda: rules.LLM(TALK), _request(first), _request("on monday"), limit=LIMIT)
    assert [type(event) for event in answers[1]][0] is ToolCall
