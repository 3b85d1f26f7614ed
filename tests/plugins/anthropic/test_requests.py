"""The body of a request: what the twin takes, and how history, tools, pictures and settings stand in it."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given

from kit.chat import assistant, call, conversations, output, system, user
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.schema_tool import SchemaTool
from vivavoce.pipelines.llm.tools import ToolChoice, function_tool
from vivavoce.pipelines.llm.transcript import INTERRUPTED, NOTE, OPENING
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.plugins.anthropic import LLMOptions
from vivavoce.plugins.anthropic.messages import FORCED, NEXT, RequestDefaults, request_body
from vivavoce.plugins.anthropic.twin.rules import refusal_of

Sent = Callable[..., Awaitable[Any]]


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


def texts(body: Any) -> list[tuple[str, list[str]]]:
    """Return the messages as roles and texts, or kinds of other blocks."""
    return [(one["role"], [block.get("text", block["type"]) for block in one["content"]]) for one in body["messages"]]


async def test_instructions_and_summaries_are_the_system_and_words_alternate(sent: Sent) -> None:
    body = await sent(
        system("They met before.", is_summary=True),
        user("Hello"),
        user("Anybody there?"),
        assistant("Yes."),
        user("Good"),
        instructions="Be brief.",
    )
    assert [block["text"] for block in body["system"]] == ["Be brief.", "They met before."]
    assert texts(body) == [("user", ["Hello", "Anybody there?"]), ("assistant", ["Yes."]), ("user", ["Good"])]
    assert (body["model"], body["max_tokens"], body["stream"]) == ("claude-sonnet-4-5", 2048, True)
    assert not {"tools", "tool_choice", "thinking", "output_config", "temperature"} & set(body)


async def test_the_user_begins_and_ends_each_conversation(sent: Sent) -> None:
    opening = NOTE.format(OPENING)
    assert texts(await sent()) == [("user", [opening])]
    greeted = texts(await sent(assistant("Hello.")))
    assert greeted == [("user", [opening]), ("assistant", ["Hello."]), ("user", [NOTE.format(NEXT)])]
    told = texts(await sent(user("Hi"), assistant("Hello."), extra_instructions="Say goodbye."))
    assert told[-1] == ("user", [NOTE.format("Say goodbye.")])


async def test_an_interruption_is_told_as_a_note(sent: Sent) -> None:
    body = await sent(user("Count"), assistant("One, two", interrupted=True), user("Stop"))
    assert texts(body)[-1] == ("user", [NOTE.format(INTERRUPTED), "Stop"])


async def test_results_stand_right_behind_their_calls_whatever_was_said_meanwhile(sent: Sent) -> None:
    body = await sent(
        user("Friday"),
        assistant("One moment."),
        call("a", arguments='{"day": "Friday"}'),
        call("b", arguments="not JSON"),
        user("And?"),
        output("a", "booked"),
        output("b", "", is_error=True),
        tools=(book,),
    )
    told = body["messages"]
    assert [block["type"] for block in told[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert [block.get("input") for block in told[1]["content"][1:]] == [{"day": "Friday"}, {"INVALID_JSON": "not JSON"}]
    results = told[2]["content"]
    assert results[0] == {"type": "tool_result", "tool_use_id": "a", "content": "booked"}
    assert results[1] == {"type": "tool_result", "tool_use_id": "b", "is_error": True}
    assert results[2]["text"] == "And?"


async def test_ids_of_other_providers_calls_are_made_fit_and_new_in_each_step(sent: Sent) -> None:
    body = await sent(
        user("Friday"),
        call("call:1/a"),
        output("call:1/a"),
        user("Saturday"),
        call("call:1/a"),
        output("call:1/a"),
        tools=(book,),
    )
    ids = [b["id"] for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
    assert ids == ["call_1_a", "call_1_a_2"]


async def test_calls_of_a_history_have_definitions_if_the_agent_has_no_tools(sent: Sent) -> None:
    body = await sent(user("Friday"), call("a"), output("a"), llm={"caching": None})
    assert body["tools"] == [{"name": "book", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


async def test_tools_and_the_choice_are_told(sent: Sent) -> None:
    async def run(arguments: dict[str, Any]) -> None: ...

    bare = SchemaTool(run, name="look", description="", parameters={"properties": {}})
    body = await sent(user("Friday"), tools=(book, bare))
    assert body["tools"][0]["description"] == "Book a table."
    assert body["tools"][0]["input_schema"]["properties"]["day"]["type"] == "string"
    assert body["tools"][1]["input_schema"]["type"] == "object"
    assert "tool_choice" not in body

    async def choice(mode: str, **llm: Any) -> Any:
        chosen = ToolChoice(mode=mode, name="book" if mode == "named" else "")  # type: ignore[arg-type]
        return (await sent(user("Friday"), tools=(book,), tool_choice=chosen, llm=llm)).get("tool_choice")

    assert await choice("required") == {"type": "any"}
    assert await choice("named") == {"type": "tool", "name": "book"}
    assert await choice("none", parallel_tool_calls=False) == {"type": "none"}
    assert await choice("auto", parallel_tool_calls=False) == {"type": "auto", "disable_parallel_tool_use": True}
    assert await choice("required", parallel_tool_calls=True) == {"type": "any", "disable_parallel_tool_use": False}


async def test_a_model_without_forced_calls_gets_them_as_a_note(sent: Sent) -> None:
    named = ToolChoice(mode="named", name="book")
    body = await sent(user("Friday"), tools=(book,), tool_choice=named, model="claude-sonnet-5-5")
    assert "tool_choice" not in body
    assert texts(body)[-1][1][-1] == NOTE.format(FORCED.format("the tool book"))


async def test_pictures_of_the_user_are_sent(sent: Sent) -> None:
    body = await sent(user("", images=(VideoFrame(b"\x89PNG", "image/png"),)), assistant("A cat."), user("Yes"))
    source = body["messages"][0]["content"][0]["source"]
    assert source["media_type"] == "image/png"
    assert base64.b64decode(source["data"]) == b"\x89PNG"


async def test_pictures_of_the_agent_are_left_out(sent: Sent) -> None:
    body = await sent(user("Look"), assistant("", images=(VideoFrame(b"\x89PNG", "image/png"),)), user("Yes"))
    assert texts(body) == [("user", ["Look", "Yes"])]


async def test_instructions_for_one_generation_stand_in_front_of_the_calls_of_its_turn(sent: Sent) -> None:
    """So the step behind a tool begins with all of the step before it."""
    step = {"extra_instructions": "In German.", "turn_id": "t", "tools": (book,)}
    first = texts(await sent(assistant("Hi."), user("Friday", turn_id="t"), **step))
    own = (assistant("Moment.", turn_id="t"), call("a", turn_id="t"), output("a", turn_id="t"))
    second = texts(await sent(assistant("Hi."), user("Friday", turn_id="t"), *own, **step))
    assert second == [*first, ("assistant", ["Moment.", "tool_use"]), ("user", ["tool_result"])]


async def test_an_output_that_comes_in_a_later_turn_stands_behind_its_call(sent: Sent) -> None:
    late = (call("a", turn_id="t1"), assistant("It runs.", turn_id="t1"), user("And?"))
    own = (assistant("One moment.", turn_id="t2"), output("a", "booked", turn_id="t2"))
    body = await sent(user("Friday"), *late, *own, turn_id="t2", extra_instructions="Now.", tools=(book,))
    results = [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert [block["content"] for block in results] == ["booked"]


async def test_settings_are_sent_and_other_fields_override_them(sent: Sent) -> None:
    options = {
        "temperature": 0.5,
        "max_output_tokens": 3000,
        "effort": "low",
        "extra_body": {"max_tokens": 99, "service_tier": "auto"},
    }
    body = await sent(user("Hi"), llm=options)
    assert (body["temperature"], body["output_config"]) == (0.5, {"effort": "low"})
    assert (body["max_tokens"], body["service_tier"]) == (99, "auto")
    assert (await sent(user("Hi"), llm={"thinking": "adaptive"}))["thinking"] == {"type": "adaptive"}
    with_budget = await sent(user("Hi"), llm={"thinking": 1024})
    assert with_budget["thinking"] == {"type": "enabled", "budget_tokens": 1024}


@given(conversations)
def test_whatever_was_said_the_api_takes_the_request(items: Any) -> None:
    options = LLMOptions(thinking=1024)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    defaults = RequestDefaults(model="m", maker="a", options=options, thinking=thinking, is_own_server=False)
    request = GenerateRequest(context=ChatContext(items), extra_instructions="Now.", turn_id="turn")
    body, headers = request_body(request, defaults)
    heads = {"x-api-key": "k", "anthropic-version": "v", **headers}
    pictures = [b for m in body["messages"] for b in m["content"] if b["type"] == "image"]
    for picture in pictures:  # of any type
        picture["source"]["media_type"] = "image/png"
    assert refusal_of(heads, body, keys=None, models=None) is None
