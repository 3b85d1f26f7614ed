"""Thought signatures go back with the calls that they came with, to their own model of their own server only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.chat import assistant, call, output, user
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.call_extra import pack_extra
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.llm.tools import ToolCall, function_tool
from vivavoce.plugins import google
from vivavoce.plugins.google.llm_request import NO_SIGNATURE
from vivavoce.plugins.google.twin import Answer, Call, Step, Twin

MakeLLM = Callable[..., google.LLM]
Ask = Callable[..., GenerateRequest]
Read = Callable[[google.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Sent = Callable[..., Awaitable[Any]]
Made = Callable[..., Awaitable[list[ChatItem]]]

ASKED = user("A table on Friday")


@function_tool
def book() -> str:
    """Book a table."""
    return "ok"


@pytest.fixture
def made(twin: Twin, make_llm: MakeLLM, ask: Ask) -> Made:
    """Return a function that lets the twin answer a history, and returns the calls, as in a history."""

    async def run(*steps: Step, behind: tuple[ChatItem, ...] = (ASKED,), **fields: Any) -> list[ChatItem]:
        twin.add(Answer(*steps))
        request = ask(*behind, tools=(book,))
        calls = [event async for event in make_llm(**fields).generate(request) if isinstance(event, ToolCall)]
        return [call(one.call_id, one.name, one.arguments, extra=one.extra) for one in calls]

    return run


def signatures(body: Any) -> list[str]:
    """Return the signatures of the calls of a request; "" for one without."""
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [part.get("thoughtSignature", "") for part in parts if "functionCall" in part]


async def test_the_signature_of_parallel_calls_goes_back_with_the_first_one(made: Made, sent: Sent) -> None:
    first, second = await made("A moment.", Call("book"), Call("book"))
    results = (output(first.call_id), output(second.call_id))  # type: ignore[union-attr]
    body = await sent(ASKED, assistant("A moment."), first, second, *results, tools=(book,))
    signed, unsigned = signatures(body)
    assert signed not in ("", NO_SIGNATURE)
    assert unsigned == ""


async def test_signatures_of_all_steps_and_of_earlier_turns_go_back(made: Made, sent: Sent) -> None:
    (first,) = await made(Call("book", id="a"))
    behind: tuple[ChatItem, ...] = (ASKED, first, output("a"))
    (second,) = await made(Call("book", id="b"), behind=behind)
    body = await sent(*behind, second, output("b"), assistant("Done."), user("Thanks"), tools=(book,))
    one, other = signatures(body)
    assert one != other
    assert NO_SIGNATURE not in (one, other)


async def test_the_id_of_a_call_goes_back_if_the_server_gave_one(made: Made, sent: Sent) -> None:
    (first,) = await made(Call("book", id="a"))
    (second,) = await made(Call("book"), behind=(ASKED, first, output("a")))
    later = output(second.call_id)  # type: ignore[union-attr]
    body = await sent(ASKED, first, output("a"), second, later, tools=(book,))
    parts = [part for content in body["contents"] for part in content["parts"]]
    assert [part["functionCall"].get("id") for part in parts if "functionCall" in part] == ["a", None]
    assert [part["functionResponse"].get("id") for part in parts if "functionResponse" in part] == ["a", None]


async def test_a_signature_goes_to_no_other_model_which_gets_the_documented_value(made: Made, sent: Sent) -> None:
    (first,) = await made(Call("book", id="a"))
    body = await sent(ASKED, first, output("a"), tools=(book,), model="gemini-4-argon")
    assert signatures(body) == [NO_SIGNATURE]


async def test_a_signature_goes_to_no_other_server(made: Made, ask: Ask) -> None:
    (first,) = await made(Call("book", id="a"))
    async with Twin() as other, google.LLM(base_url=other.url, api_key="k") as llm:
        other.add(Answer("Done."))
        async for _ in llm.generate(ask(ASKED, first, output("a"))):
            pass
    assert signatures(other.bodies[0]) == [NO_SIGNATURE]


async def test_the_first_call_of_each_step_of_another_maker_gets_the_documented_value(sent: Sent) -> None:
    foreign = pack_extra("anthropic", {"signature": "theirs", "thoughts": [], "id": "x"})
    step = (call("a", extra=foreign), call("b"), output("a"), output("b"))
    body = await sent(ASKED, *step, call("c"), output("c"), tools=(book,))
    assert signatures(body) == [NO_SIGNATURE, "", NO_SIGNATURE]
    assert "theirs" not in str(body)


async def test_a_model_before_gemini_3_gets_no_such_value(sent: Sent) -> None:
    body = await sent(ASKED, call("a"), output("a"), tools=(book,), model="gemini-2.5-flash")
    assert signatures(body) == [""]


async def test_the_twin_refuses_a_call_without_its_signature_as_gemini_3_does(
    twin: Twin, make_llm: MakeLLM, answer: Read, ask: Ask
) -> None:
    unsigned = [
        {"role": "user", "parts": [{"text": "Friday"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "book", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "book", "response": {"output": "ok"}}}]},
    ]
    with pytest.raises(ProviderStatusError, match="status 400, INVALID_ARGUMENT; .* missing a thought_signature"):
        await answer(make_llm(extra_body={"contents": unsigned}), ask(ASKED))
    assert "`default_api:book` , position 2" in twin.refused[0]
    wrong = [dict(one) for one in unsigned]
    wrong[1] = {"role": "model", "parts": [{**unsigned[1]["parts"][0], "thoughtSignature": "c29tZQ=="}]}  # type: ignore[dict-item]
    with pytest.raises(ProviderStatusError, match="Corrupted thought signature"):
        await answer(make_llm(extra_body={"contents": wrong}), ask(ASKED))
