"""Thoughts go back with the calls that they led to, as long as the API wants them, and to their own model only."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.chat import assistant, call, output, user
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.call_extra import pack_extra
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.plugins import anthropic
from vivavoce.plugins.anthropic.messages import BINDING_BETA, DROPS_INVALID, RequestDefaults, request_body
from vivavoce.plugins.anthropic.options import LLMOptions
from vivavoce.plugins.anthropic.twin import Answer, Call, Step, Thought, Twin
from vivavoce.plugins.anthropic.twin.rules import refusal_of

MakeLLM = Callable[..., anthropic.LLM]
Ask = Callable[..., GenerateRequest]

ASKED = user("A table on Friday")


@function_tool
def book() -> str:
    """Book a table."""
    return "ok"


@pytest.fixture
def made(twin: Twin, make_llm: MakeLLM, ask: Ask) -> Callable[..., Awaitable[list[ChatItem]]]:
    """Return a function that lets the twin answer a history, and returns the calls, as in a history."""

    async def run(*steps: Step, behind: tuple[ChatItem, ...] = (ASKED,), **options: Any) -> list[ChatItem]:
        twin.add(Answer(*steps))
        request = ask(*behind, tools=(book,))
        calls = [event async for event in make_llm(**options).generate(request) if isinstance(event, ToolCall)]
        return [call(one.call_id, one.name, one.arguments, extra=one.extra) for one in calls]

    return run


Made = Callable[..., Awaitable[list[ChatItem]]]
Sent = Callable[..., Awaitable[Any]]


def kinds(body: Any) -> list[list[str]]:
    return [[block["type"] for block in message["content"]] for message in body["messages"]]


@pytest.mark.parametrize("thinking", ["adaptive", 1024])
async def test_thoughts_go_back_where_they_were_and_the_api_takes_them(made: Made, sent: Sent, thinking: Any) -> None:
    steps = (Thought("They want one."), "A moment.", Thought(is_redacted=True), Call("book", id="a"))
    first, second = await made(*steps, Thought("And one more."), Call("book", id="b"), thinking=thinking)
    said = assistant("A moment.")
    body = await sent(ASKED, said, first, second, output("a"), output("b"), tools=(book,), llm={"thinking": thinking})
    assert kinds(body)[1] == ["thinking", "text", "redacted_thinking", "tool_use", "thinking", "tool_use"]
    assert body["messages"][1]["content"][0]["thinking"] == "They want one."


async def test_thoughts_of_earlier_turns_stay_out(made: Made, sent: Sent) -> None:
    (first,) = await made(Thought("They want one."), Call("book", id="a"), thinking="adaptive")
    body = await sent(ASKED, first, output("a"), assistant("Done."), user("Thanks"), tools=(book,))
    assert kinds(body)[1] == ["tool_use"]


async def test_thoughts_go_to_no_other_model(made: Made, sent: Sent) -> None:
    (first,) = await made(Thought("They want one."), Call("book", id="a"), thinking="adaptive")
    body = await sent(ASKED, first, output("a"), tools=(book,), model="claude-opus-4-5")
    assert kinds(body)[1] == ["tool_use"]


async def test_thoughts_stay_out_where_thinking_is_off(made: Made, sent: Sent) -> None:
    (first,) = await made(Thought("They want one."), Call("book", id="a"), thinking="adaptive")
    body = await sent(ASKED, first, output("a"), tools=(book,), llm={"thinking": "disabled"})
    assert kinds(body)[1] == ["tool_use"]


async def test_a_second_step_without_thoughts_keeps_the_budget_of_the_first(made: Made, sent: Sent) -> None:
    (first,) = await made(Thought("They want one."), Call("book", id="a"), thinking=1024)
    behind = (ASKED, first, output("a"))
    (second,) = await made(Call("book", id="b"), behind=behind, thinking=1024)
    body = await sent(*behind, second, output("b"), tools=(book,), llm={"thinking": 1024})
    assert body["thinking"]["type"] == "enabled"


async def test_a_budget_is_left_out_where_the_api_would_refuse_it(sent: Sent) -> None:
    """Behind the calls of another model, and with a forced call."""
    foreign = call("a", extra=pack_extra("another", {"thoughts": []}))
    options = {"thinking": 1024}
    assert "thinking" not in await sent(ASKED, foreign, output("a"), tools=(book,), llm=options)
    forced = ToolChoice(mode="required")
    assert "thinking" not in await sent(ASKED, tools=(book,), tool_choice=forced, llm=options)
    said = (ASKED, foreign, output("a"), assistant("Done."), user("Thanks"))
    assert "thinking" in await sent(*said, tools=(book,), llm=options)


@pytest.mark.parametrize("thinking", [None, {"type": "adaptive"}])
async def test_anthropics_own_server_drops_thoughts_behind_a_history_that_has_changed(
    made: Made, thinking: dict[str, Any] | None
) -> None:
    (first,) = await made(Thought("They want one."), Call("book", id="a"), thinking="adaptive")
    defaults = RequestDefaults(
        model="claude-sonnet-4-5",
        maker=pack_maker(first),
        options=LLMOptions(),
        thinking=thinking,
        is_own_server=True,
    )
    history = ChatContext([user("A table on Saturday"), first, output("a")])
    body, headers = request_body(GenerateRequest(context=history, tools=(book,)), defaults)
    assert body["thinking"] == {"type": "adaptive", "block_binding": DROPS_INVALID}
    assert headers == {"anthropic-beta": BINDING_BETA}
    heads = {"x-api-key": "k", "anthropic-version": "v"}
    assert refusal_of({**heads, **headers}, body, keys=None, models=None) is None
    strict = {**body, "thinking": {"type": "adaptive"}}
    refusal = refusal_of(heads, strict, keys=None, models=None)
    assert refusal is not None
    assert "bound to a different conversation" in refusal.message


def pack_maker(item: Any) -> str:
    return str(json.loads(item.extra)["maker"])
