"""The requests to the server: history, tools, pictures, options, in both APIs and both dialects."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatContext,
    ChatItem,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
)
from vivavoce.pipelines.llm.tools import ToolChoice, function_tool
from vivavoce.pipelines.llm.transcript import Calls, Words, transcript
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.plugins import openai
from vivavoce.plugins.openai.options import Api
from vivavoce.plugins.openai.twin import Answer, OpenAITwin, chat_answer, responses_answer

Read = Callable[[openai.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Ask = Callable[..., GenerateRequest]
MakeLLM = Callable[..., openai.LLM]

OPENAI = openai.LLMOptions(dialect="openai")
ANSWERS: dict[Api, Answer] = {"chat": chat_answer("Hi."), "responses": responses_answer("Hi.")}


@function_tool
def book(day: str, people: int = 2) -> str:
    """Book a table."""
    return f"{day}, {people}"


def user(text: str, **fields: Any) -> ChatMessage:
    return ChatMessage(role="user", content=text, **fields)


def assistant(text: str, **fields: Any) -> ChatMessage:
    return ChatMessage(role="assistant", content=text, **fields)


def call(call_id: str, arguments: str = "{}") -> FunctionCall:
    return FunctionCall(call_id=call_id, name="book", arguments=arguments)


def output(call_id: str, text: str = "ok") -> FunctionCallOutput:
    return FunctionCallOutput(call_id=call_id, name="book", output=text)


@pytest.fixture
def sent(server: OpenAITwin, make_llm: MakeLLM, answer: Read) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return a function that sends a request and returns the JSON that the server got."""

    async def send(
        request: GenerateRequest, *, api: Api = "chat", options: openai.LLMOptions = OPENAI
    ) -> dict[str, Any]:
        server.add(ANSWERS[api])
        await answer(make_llm(api=api, options=options), request)
        return server.bodies[-1]

    return send


Sent = Callable[..., Awaitable[dict[str, Any]]]


async def test_a_chat_starts_with_the_instructions(sent: Sent, ask: Ask) -> None:
    body = await sent(ask(assistant("Hello."), user("A table."), instructions="Be brief."))
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "A table."},
        ],
    }


async def test_responses_get_items_and_store_nothing(sent: Sent, ask: Ask) -> None:
    body = await sent(ask(assistant("Hello."), user("A table."), instructions="Be brief."), api="responses")
    assert body == {
        "model": "m",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "assistant", "content": "Hello."},
            {"type": "message", "role": "user", "content": "A table."},
        ],
    }


async def test_options_reach_a_chat(sent: Sent, ask: Ask) -> None:
    options = openai.LLMOptions(
        dialect="openai",
        temperature=0.5,
        max_output_tokens=50,
        parallel_tool_calls=False,
        reasoning_effort="low",
        extra_body={"service_tier": "priority", "temperature": 0.1},
    )
    body = await sent(ask(user("Hi"), tools=(book,)), options=options)
    assert body["max_completion_tokens"] == 50
    assert body["parallel_tool_calls"] is False
    assert body["reasoning_effort"] == "low"
    assert body["service_tier"] == "priority"
    assert body["temperature"] == 0.1, "extra_body wins"


async def test_options_reach_responses(sent: Sent, ask: Ask) -> None:
    options = openai.LLMOptions(temperature=0.5, max_output_tokens=50, parallel_tool_calls=True, reasoning_effort="low")
    body = await sent(ask(user("Hi"), tools=(book,)), api="responses", options=options)
    assert (body["temperature"], body["max_output_tokens"], body["parallel_tool_calls"]) == (0.5, 50, True)
    assert body["reasoning"] == {"effort": "low"}


async def test_other_servers_get_the_token_limit_that_all_of_them_know(sent: Sent, ask: Ask) -> None:
    body = await sent(ask(user("Hi")), options=openai.LLMOptions(max_output_tokens=50))
    assert body["max_tokens"] == 50
    assert "max_completion_tokens" not in body


async def test_tools_carry_their_schema(sent: Sent, ask: Ask) -> None:
    request = ask(user("Hi"), tools=(book,))
    chat = (await sent(request))["tools"]
    responses = (await sent(request, api="responses"))["tools"]
    schema = book.parameters_schema()
    assert schema["required"] == ["day"]
    assert chat == [
        {"type": "function", "function": {"name": "book", "description": "Book a table.", "parameters": schema}}
    ]
    assert responses == [
        {
            "type": "function",
            "name": "book",
            "description": "Book a table.",
            "parameters": schema,
            "strict": False,
        }
    ]


@pytest.mark.parametrize(
    ("choice", "chat", "responses"),
    [
        (ToolChoice(), None, None),
        (ToolChoice(mode="required"), "required", "required"),
        (ToolChoice(mode="none"), "none", "none"),
        (
            ToolChoice(mode="named", name="book"),
            {"type": "function", "function": {"name": "book"}},
            {"type": "function", "name": "book"},
        ),
    ],
)
async def test_tool_choice(sent: Sent, ask: Ask, choice: ToolChoice, chat: object, responses: object) -> None:
    request = ask(user("Hi"), tools=(book,), tool_choice=choice)
    assert (await sent(request)).get("tool_choice") == chat
    assert (await sent(request, api="responses")).get("tool_choice") == responses


async def test_without_tools_nothing_is_said_about_them(sent: Sent, ask: Ask) -> None:
    options = openai.LLMOptions(parallel_tool_calls=True)
    for api in ANSWERS:
        body = await sent(ask(user("Hi"), tool_choice=ToolChoice(mode="required")), api=api, options=options)
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


async def test_pictures_go_as_data_urls(sent: Sent, ask: Ask) -> None:
    request = ask(user("What is it?", images=(VideoFrame(b"\xff\xd8", "image/jpeg"),)))
    options = openai.LLMOptions(image_detail="low")
    chat = (await sent(request, options=options))["messages"][-1]
    responses = (await sent(request, api="responses", options=options))["input"][-1]
    url = "data:image/jpeg;base64,/9g="
    assert chat["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
    ]
    assert responses["content"] == [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": url, "detail": "low"},
    ]


async def test_a_picture_without_words_is_a_message(sent: Sent, ask: Ask) -> None:
    body = await sent(ask(user("", images=(VideoFrame(b"x", "image/png"),))))
    assert [part["type"] for part in body["messages"][-1]["content"]] == ["image_url"]


async def test_parallel_calls_are_one_message_with_the_words_before_them(sent: Sent, ask: Ask) -> None:
    history = (user("Two tables"), assistant("Let me see."), call("a"), call("b"), output("a", "1"), output("b", "2"))
    messages = (await sent(ask(*history)))["messages"]
    assert messages[1]["content"] == "Let me see."
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["a", "b"]
    assert [(m["role"], m["tool_call_id"], m["content"]) for m in messages[2:]] == [
        ("tool", "a", "1"),
        ("tool", "b", "2"),
    ]
    items = (await sent(ask(*history), api="responses"))["input"]
    assert [item["type"] for item in items[2:]] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert [item["call_id"] for item in items[2:]] == ["a", "b", "a", "b"]


async def test_steps_one_after_the_other_stay_apart(sent: Sent, ask: Ask) -> None:
    messages = (await sent(ask(user("Hi"), call("a"), output("a"), call("b"), output("b"))))["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert messages[1]["content"] is None


async def test_what_was_said_during_a_call_stands_after_its_output(sent: Sent, ask: Ask) -> None:
    messages = (await sent(ask(user("Book"), call("a"), user("Hurry"), output("a", "late"))))["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "user"]
    assert messages[2]["content"] == "late"


async def test_a_call_keeps_its_own_output_when_its_id_comes_again(sent: Sent, ask: Ask) -> None:
    items = [user("friday?"), call("a"), output("a", "first"), user("monday?"), call("a"), output("a", "second")]
    messages = (await sent(ask(*items)))["messages"]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["first", "second"]


async def test_a_call_without_output_is_still_running(sent: Sent, ask: Ask) -> None:
    messages = (await sent(ask(user("Book"), call("a"), user("Well?"))))["messages"]
    assert (messages[2]["role"], messages[2]["content"]) == ("tool", "still running")


async def test_an_output_without_call_is_left_out(sent: Sent, ask: Ask) -> None:
    messages = (await sent(ask(output("gone"), user("Hi"))))["messages"]
    assert [m["role"] for m in messages] == ["user"]


async def test_handoffs_and_config_changes_are_not_sent_and_part_no_calls(sent: Sent, ask: Ask) -> None:
    handoff = AgentHandoff(old_agent="Host", new_agent="Cashier")
    change = ConfigChange(agent="Host", instructions="Be curt.")
    plain = [user("both"), call("a"), call("b"), output("a"), output("b")]
    mixed = [handoff, plain[0], plain[1], change, *plain[2:], handoff]
    assert (await sent(ask(*mixed)))["messages"] == (await sent(ask(*plain)))["messages"]


@pytest.mark.parametrize("api", list(ANSWERS))
async def test_the_model_is_told_of_an_interruption_in_the_request_only(sent: Sent, ask: Ask, api: Api) -> None:
    said = assistant("We have a table at", interrupted=True)
    body = await sent(ask(user("When?"), said, user("Eight")), api=api)
    messages = body["messages" if api == "chat" else "input"]
    assert [m["role"] for m in messages] == ["user", "assistant", "system", "user"]
    assert messages[1]["content"] == said.content == "We have a table at"
    assert "interrupted" in messages[2]["content"]


async def test_backchannels_and_speakers_are_marked(sent: Sent, ask: Ask) -> None:
    body = await sent(ask(user("Hi", speaker="Ann"), assistant("Well"), user("mhm", backchannel=True), user("Go on")))
    texts = [m["content"] for m in body["messages"]]
    assert texts == ["Ann: Hi", "Well", "[said while you were speaking: mhm]", "Go on"]


async def test_instructions_for_one_generation_come_last(sent: Sent, ask: Ask) -> None:
    body = await sent(ask(user("Hi"), instructions="Be brief.", extra_instructions="Ask for the name."))
    assert body["messages"][-1] == {"role": "system", "content": "Ask for the name."}
    assert body["messages"][0]["content"] == "Be brief."


async def test_other_servers_get_one_system_message_and_roles_in_turn(sent: Sent, ask: Ask) -> None:
    history = (assistant("Hello, I", interrupted=True), user("A table"), user("for two"))
    request = ask(*history, instructions="Be brief.", extra_instructions="Ask for the name.")
    messages = (await sent(request, options=openai.LLMOptions()))["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[2]["content"] == "Hello, I"
    note, table, people, name = messages[3]["content"].split("\n")
    assert "interrupted" in note
    assert (table, people) == ("A table", "for two")
    assert "Ask for the name." in name


async def test_a_greeting_can_be_generated_from_instructions_alone(sent: Sent, ask: Ask) -> None:
    request = ask(instructions="Be brief.", extra_instructions="Greet the caller.")
    messages = (await sent(request, options=openai.LLMOptions()))["messages"]
    assert [m["role"] for m in messages] == ["system", "user"]
    assert "Greet the caller." in messages[1]["content"]


texts = st.sampled_from(["", " ", "one", "two"])
messages_ = st.builds(
    ChatMessage,
    role=st.sampled_from(["system", "user", "assistant"]),
    content=texts,
    interrupted=st.booleans(),
    backchannel=st.booleans(),
)
ids = st.sampled_from("abc")
histories = st.lists(st.one_of(messages_, st.builds(call, ids), st.builds(output, ids)), max_size=12)


@given(histories, texts)
def test_law_whatever_the_history_a_strict_template_takes_it(items: list[ChatItem], extra: str) -> None:
    request = GenerateRequest(context=ChatContext(items), extra_instructions=extra)
    parts = transcript(request, is_strict=True).parts
    assert isinstance(parts[0], Words)
    assert parts[0].role == "user"
    for before, after in zip(parts, parts[1:], strict=False):
        assert not (isinstance(before, Words) and isinstance(after, Words) and before.role == after.role)
    assert all(part.role != "system" for part in parts if isinstance(part, Words))


@given(histories)
def test_law_each_call_has_one_output_and_no_words_are_lost(items: list[ChatItem]) -> None:
    for is_strict in (False, True):
        script = transcript(GenerateRequest(context=ChatContext(items)), is_strict=is_strict)
        pairs = [pair for part in script.parts if isinstance(part, Calls) for pair in part.pairs]
        assert [made for made, _ in pairs] == [item for item in items if isinstance(item, FunctionCall)]
        assert all(made.call_id == out.call_id for made, out in pairs)
        text = script.instructions + json.dumps([p.text for p in script.parts if isinstance(p, Words)])
        spoken = [item.content for item in items if isinstance(item, ChatMessage) and item.content.strip()]
        assert text.count("one") + text.count("two") >= len(spoken)
