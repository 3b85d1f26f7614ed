"""The body of a request: what the twin takes, and how history, tools, pictures and settings stand in it."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given

from kit.chat import assistant, call, conversations, output, system, user
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.schema_tool import SchemaTool
from vivavoce.pipelines.llm.tools import ToolChoice, function_tool
from vivavoce.pipelines.llm.transcript import INTERRUPTED, NOTE, OPENING
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.plugins.google import LLMOptions
from vivavoce.plugins.google.llm_request import NEXT, RequestDefaults, request_body
from vivavoce.plugins.google.twin.rules import problem_of

Sent = Callable[..., Awaitable[Any]]


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


@function_tool
def leave() -> str:
    """Leave."""
    return ""


def texts(body: Any) -> list[tuple[str, list[str]]]:
    """Return the contents as roles and texts, or kinds of other parts."""
    return [(one["role"], [part.get("text", next(iter(part))) for part in one["parts"]]) for one in body["contents"]]


async def test_instructions_and_summaries_are_the_system_and_words_alternate(sent: Sent) -> None:
    body = await sent(
        system("They met before.", is_summary=True),
        user("Hello"),
        user("Anybody there?"),
        assistant("Yes."),
        user("Good"),
        instructions="Be brief.",
    )
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "They met before."}]}
    assert texts(body) == [("user", ["Hello", "Anybody there?"]), ("model", ["Yes."]), ("user", ["Good"])]
    assert set(body) == {"systemInstruction", "contents", "generationConfig"}


async def test_the_user_begins_and_ends_each_conversation(sent: Sent) -> None:
    opening = NOTE.format(OPENING)
    assert texts(await sent()) == [("user", [opening])]
    greeted = texts(await sent(assistant("Hello.")))
    assert greeted == [("user", [opening]), ("model", ["Hello."]), ("user", [NOTE.format(NEXT)])]
    told = texts(await sent(user("Hi"), assistant("Hello."), extra_instructions="Say goodbye."))
    assert told[-1] == ("user", [NOTE.format("Say goodbye.")])


async def test_an_interruption_is_told_as_a_note(sent: Sent) -> None:
    body = await sent(user("Count"), assistant("One, two", interrupted=True), user("Stop"))
    assert texts(body)[-1] == ("user", [NOTE.format(INTERRUPTED), "Stop"])


async def test_results_stand_alone_right_behind_their_calls_whatever_was_said_meanwhile(sent: Sent) -> None:
    body = await sent(
        user("Friday"),
        assistant("One moment."),
        call("a", arguments='{"day": "Friday"}'),
        call("b", arguments="not JSON"),
        user("And?"),
        output("a", "booked"),
        output("b", "no", is_error=True),
        tools=(book,),
    )
    assert texts(body)[1:] == [
        ("model", ["One moment.", "functionCall", "functionCall"]),
        ("user", ["functionResponse", "functionResponse"]),
        ("user", ["And?"]),
    ]
    calls = [part["functionCall"] for part in body["contents"][1]["parts"][1:]]
    assert [one["args"] for one in calls] == [{"day": "Friday"}, {"unreadable": "not JSON"}]
    results = [part["functionResponse"] for part in body["contents"][2]["parts"]]
    assert results == [
        {"name": "book", "response": {"output": "booked"}},
        {"name": "book", "response": {"error": "no"}},
    ]


async def test_names_of_other_providers_calls_are_made_fit(sent: Sent) -> None:
    body = await sent(user("Friday"), call("a", name="book a/table"), output("a"))
    assert body["contents"][1]["parts"][0]["functionCall"]["name"] == "book_a_table"
    assert body["contents"][2]["parts"][0]["functionResponse"]["name"] == "book_a_table"


async def test_tools_and_the_choice_are_told(sent: Sent) -> None:
    async def run(arguments: dict[str, Any]) -> None: ...

    bare = SchemaTool(run, name="look", description="", parameters={"properties": {}})
    body = await sent(user("Friday"), tools=(book, leave, bare))
    (tool,) = body["tools"]
    first, *others = tool["functionDeclarations"]
    assert first["description"] == "Book a table."
    assert first["parametersJsonSchema"]["properties"] == {"day": {"type": "string"}}
    assert others == [{"name": "leave", "description": "Leave."}, {"name": "look"}]
    assert "toolConfig" not in body

    async def choice(mode: str) -> Any:
        chosen = ToolChoice(mode=mode, name="book" if mode == "named" else "")  # type: ignore[arg-type]
        return (await sent(user("Friday"), tools=(book,), tool_choice=chosen))["toolConfig"]["functionCallingConfig"]

    assert await choice("required") == {"mode": "ANY"}
    assert await choice("named") == {"mode": "ANY", "allowedFunctionNames": ["book"]}
    assert await choice("none") == {"mode": "NONE"}
    assert "toolConfig" not in await sent(user("Friday"), tool_choice=ToolChoice(mode="required"))


async def test_pictures_of_the_user_are_sent_and_those_of_the_agent_left_out(sent: Sent) -> None:
    picture = VideoFrame(b"\x89PNG", "image/png")
    body = await sent(user("", images=(picture,)), assistant("", images=(picture,)), user("Yes"))
    data = base64.b64encode(b"\x89PNG").decode()
    assert body["contents"] == [
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": data}}, {"text": "Yes"}]}
    ]


async def test_instructions_for_one_generation_stand_in_front_of_the_calls_of_its_turn(sent: Sent) -> None:
    """So the step behind a tool begins with all of the step before it."""
    step = {"extra_instructions": "In German.", "turn_id": "t", "tools": (book,)}
    first = texts(await sent(assistant("Hi."), user("Friday", turn_id="t"), **step))
    own = (assistant("Moment.", turn_id="t"), call("a", turn_id="t"), output("a", turn_id="t"))
    second = texts(await sent(assistant("Hi."), user("Friday", turn_id="t"), *own, **step))
    assert second == [*first, ("model", ["Moment.", "functionCall"]), ("user", ["functionResponse"])]


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("gemini-3.8-flash", {"thinkingLevel": "LOW"}),
        ("gemini-3-flash-preview", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.8-flash-lite", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "LOW"}),
        ("gemini-4-argon", {"thinkingLevel": "LOW"}),
        ("gemini-flash-latest", {"thinkingLevel": "LOW"}),
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("models/gemini-2.5-pro", {"thinkingBudget": 128}),
        ("gemini-2.0-flash", None),
        ("gemma-4-27b", None),
    ],
)
async def test_a_model_thinks_as_little_as_it_can_unless_it_is_told_to(sent: Sent, model: str, least: Any) -> None:
    body = await sent(user("Hi"), model=model)
    assert body.get("generationConfig", {}).get("thinkingConfig") == least
    assert "generationConfig" not in await sent(user("Hi"), model=model, llm={"thinking": None})


async def test_settings_are_sent_and_other_fields_override_them(sent: Sent) -> None:
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    options = {
        "temperature": 0.5,
        "max_output_tokens": 3000,
        "thinking": "high",
        "extra_body": {"safetySettings": safety, "generationConfig": {"topP": 0.9, "temperature": 0.7}},
    }
    body = await sent(user("Hi"), llm=options)
    assert body["safetySettings"] == safety
    assert body["generationConfig"] == {
        "temperature": 0.7,
        "maxOutputTokens": 3000,
        "thinkingConfig": {"thinkingLevel": "HIGH"},
        "topP": 0.9,
    }
    budget = await sent(user("Hi"), model="gemini-2.5-flash", llm={"thinking": 512})
    assert budget["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 512}}


@given(conversations)
def test_whatever_was_said_the_api_takes_the_request(items: Any) -> None:
    defaults = RequestDefaults(maker="a", options=LLMOptions(), thinking={}, wants_signatures=True)
    request = GenerateRequest(context=ChatContext(items), extra_instructions="Now.", turn_id="turn")
    assert problem_of("gemini-3.8-flash", request_body(request, defaults), set()) is None
