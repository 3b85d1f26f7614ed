"""The table of servers: each entry against the twin with that server's manners, and the choice of key and address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderStatusError
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.testing import check_llm
from vivavoce.plugins import openai
from vivavoce.plugins.openai.servers import BY_NAME, SERVERS, ServerName, server_of
from vivavoce.plugins.openai.twin import (
    DONE,
    Answer,
    OpenAITwin,
    Step,
    chat_answer,
    chat_call,
    chat_delta,
    chat_end,
)
from vivavoce.plugins.openai.twin.manners import MANNERS

KEY = "very-secret-4711"
CHATTING = [name for name in MANNERS if name != "azure"]


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own keys."""
    for server in SERVERS:
        for name in server.key_variables:
            monkeypatch.delenv(name, raising=False)


async def ask(
    name: ServerName, *answers: Answer, context: ChatContext | None = None, options: openai.LLMOptions | None = None
) -> tuple[list[LLMEvent], OpenAITwin]:
    """Return the events of the last answer of a server with these manners, and its twin."""
    async with OpenAITwin(name) as twin:
        twin.add(*answers)
        async with openai.LLM(server=name, model="m", base_url=twin.url, api_key=KEY, options=options) as llm:
            tools = (book,) if llm.capabilities.supports_tools else ()
            request = GenerateRequest(
                context=context or ChatContext([said("Hi")]), instructions="Be brief.", tools=tools
            )
            for _ in answers:
                events = [event async for event in llm.generate(request)]
    return events, twin


def said(text: str, **fields: object) -> ChatMessage:
    return ChatMessage(role="user", content=text, **fields)  # type: ignore[arg-type]


def told(text: str, **fields: object) -> ChatMessage:
    return ChatMessage(role="assistant", content=text, **fields)  # type: ignore[arg-type]


def text_of(events: Sequence[LLMEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("name", CHATTING)
async def test_an_answer_and_its_usage_are_read_wherever_the_server_puts_them(name: ServerName) -> None:
    options = openai.LLMOptions(max_output_tokens=100)
    events, twin = await ask(name, chat_answer("Hello ", "there."), options=options)
    assert twin.refused == []
    assert text_of(events) == "Hello there."
    cached = 5
    assert events[-2:] == [Usage(input_tokens=12, output_tokens=7, cached_tokens=cached), Done("stop")]
    assert twin.requests[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("name", [name for name in CHATTING if name != "perplexity"])
async def test_calls_of_another_server_and_interruptions_in_the_history_are_refused_by_none(name: ServerName) -> None:
    context = ChatContext(
        [
            told("Hello, who is there?", interrupted=True),
            said("Book Friday."),
            told("One moment."),
            FunctionCall(call_id="call_0fypS1hVX-long", name="book", arguments='{"day": "Friday"}'),
            FunctionCall(call_id="call_2", name="book", arguments='{"day": "Sunday"}'),
            FunctionCallOutput(call_id="call_0fypS1hVX-long", name="book", output="done"),
            FunctionCallOutput(call_id="call_2", name="book", output="done"),
            said("And Monday?"),
            told("It is"),
        ]
    )
    events, twin = await ask(name, chat_answer("Full."), context=context)
    assert twin.refused == []
    assert text_of(events) == "Full."
    calls = [call["id"] for message in twin.bodies[0]["messages"] for call in message.get("tool_calls", ())]
    outputs = [message["tool_call_id"] for message in twin.bodies[0]["messages"] if message["role"] == "tool"]
    assert calls == outputs
    assert len(set(calls)) == 2


@pytest.mark.parametrize("name", ["mistral", "groq", "openrouter"])
async def test_a_named_servers_model_keeps_the_promises_of_an_llm(name: ServerName) -> None:
    context = ChatContext([said("Book Friday.")])
    talk = GenerateRequest(context=context, tools=(book,))
    act = GenerateRequest(context=context, tools=(book,), tool_choice=ToolChoice(mode="required"))
    call = [chat_call(0, "abc123XYZ", "book", '{"day": '), chat_call(0, None, None, '"Friday"}')]
    async with OpenAITwin(name) as twin:
        twin.add(chat_answer("Hello ", "there."), Answer(steps=[*call, *chat_end("tool_calls")]))
        twin.default = chat_answer("Hello ", "there.")
        await check_llm(
            lambda: openai.LLM(server=name, model="m", base_url=twin.url, api_key=KEY), talk, act, limit=LIMIT
        )
    assert twin.refused == []


async def test_perplexity_calls_no_tools_and_says_so_before_a_request() -> None:
    assert not openai.LLM(server="perplexity", model="sonar", api_key=KEY).capabilities.supports_tools
    events, twin = await ask(
        "perplexity", chat_answer("Full."), context=ChatContext([said("Hi"), told("Hello."), told("So?")])
    )
    assert (text_of(events), twin.refused) == ("Full.", [])


async def test_a_call_of_a_tool_comes_from_each_server_that_has_tools() -> None:
    call = Answer(steps=[chat_call(0, "abc123XYZ", "book", '{"day": "Friday"}'), *chat_end("tool_calls")])
    for name in ("mistral", "groq", "ollama", "deepseek"):
        events, _ = await ask(name, call)
        assert [event.call_id for event in events if isinstance(event, ToolCall)] == ["abc123XYZ"]


async def test_deepseek_does_not_think_unless_told_to_and_gets_its_thoughts_back() -> None:
    call = Answer(steps=[chat_call(0, "c1", "book", '{"day": "Friday"}'), *chat_end("tool_calls")])
    _, twin = await ask("deepseek", chat_answer("Hi."))
    assert twin.bodies[0]["thinking"] == {"type": "disabled"}

    async with OpenAITwin("deepseek") as twin:
        twin.add(call, chat_answer("Booked."))
        options = openai.LLMOptions(reasoning_effort="high")
        async with openai.LLM(server="deepseek", model="m", base_url=twin.url, api_key=KEY, options=options) as llm:
            context = ChatContext([said("Book Friday.")])
            made = [item async for item in llm.generate(GenerateRequest(context=context, tools=(book,)))]
            (one,) = [event for event in made if isinstance(event, ToolCall)]
            context = ChatContext(
                [
                    *context.items,
                    FunctionCall(call_id=one.call_id, name=one.name, arguments=one.arguments, extra=one.extra),
                    FunctionCallOutput(call_id=one.call_id, name=one.name, output="done"),
                ]
            )
            told = [item async for item in llm.generate(GenerateRequest(context=context, tools=(book,)))]
    assert (text_of(told), twin.refused) == ("Booked.", [])
    assert twin.bodies[1]["reasoning_effort"] == "high"
    assert "thinking" not in twin.bodies[1]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("groq", {"reasoning_effort": "none"}),
        ("together", {"reasoning": {"enabled": False}}),
        ("openrouter", {"reasoning": {"effort": "none"}}),
        ("deepseek", {"thinking": {"type": "disabled"}}),
    ],
)
async def test_no_reasoning_is_asked_for_in_the_servers_words(name: ServerName, field: dict[str, object]) -> None:
    _, twin = await ask(name, chat_answer("Hi."), options=openai.LLMOptions(reasoning_effort="none"))
    body = twin.bodies[0]
    assert {key: body[key] for key in ("reasoning_effort", "reasoning", "thinking") if key in body} == field


@pytest.mark.parametrize(
    ("name", "field"),
    [("groq", "max_completion_tokens"), ("mistral", "max_tokens"), ("ollama", "max_tokens"), ("xai", "max_tokens")],
)
async def test_the_limit_of_an_answer_has_the_servers_name(name: ServerName, field: str) -> None:
    _, twin = await ask(name, chat_answer("Hi."), options=openai.LLMOptions(max_output_tokens=9))
    assert {key: value for key, value in twin.bodies[0].items() if key.startswith("max_")} == {field: 9}


ERROR_CHUNK = {
    "id": "gen-1",
    "object": "chat.completion.chunk",
    "error": {"code": 502, "message": "Provider disconnected"},
    "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
}


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ([chat_delta(content="So"), ERROR_CHUNK], 502),
        ([{"error": {"code": "queue_exceeded", "message": "busy"}, "status_code": 429}], 429),
        ([{"error": {"code": 500, "message": "busy", "type": "server_error"}}], 500),
    ],
)
async def test_an_error_inside_of_an_answer_is_one_with_its_status(steps: list[Step], status: int) -> None:
    with pytest.raises(ProviderStatusError) as caught:
        await ask("openrouter", Answer(steps=steps))
    assert (caught.value.status, caught.value.retryable) == (status, True)


@pytest.mark.parametrize(
    "step",
    [
        chat_delta(finish="error"),
        {**chat_delta(finish="stop"), "x_groq": {"error": "the model failed"}},
        {**chat_delta(finish="stop"), "x_groq": {"error": {"message": "busy"}}},
    ],
)
async def test_an_answer_that_ends_with_an_error_is_no_answer(step: Step) -> None:
    with pytest.raises(ProviderError, match="failed"):
        await ask("groq", Answer(steps=[chat_delta(content="So"), step, DONE]))


@pytest.mark.parametrize(
    ("pieces", "spoken"),
    [
        (["<think>Hm.</think>Hi"], "Hi"),
        (["\n", "<th", "ink>", "Hm", ".</thi", "nk>", "\n\n", "Hi", " there"], "Hi there"),
        (["<think>a</think>", " <think>b</think> Hi"], "Hi"),
        (["<think>Hm."], ""),
        (["<", "3 ", "you"], "<3 you"),
        (["<"], "<"),
        (["Hi <think>there</think>"], "Hi <think>there</think>"),
    ],
)
async def test_thoughts_in_tags_at_the_beginning_are_not_spoken(pieces: list[str], spoken: str) -> None:
    events, _ = await ask("vllm", chat_answer(*pieces))
    assert text_of(events) == spoken


async def test_mistrals_thoughts_in_parts_are_not_spoken() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Hi"}]
    events, _ = await ask("mistral", Answer(steps=[chat_delta(content=parts), *chat_end()]))
    assert text_of(events) == "Hi"


def test_an_unknown_server_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"need server 'azure', 'cerebras'.*got 'grok'"):
        openai.LLM(server="grok", model="m")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "azure"])
def test_a_servers_key_comes_from_its_variable_and_goes_to_its_hosts_only(
    name: ServerName, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = BY_NAME[name]
    if not server.key_variables:
        assert openai.LLM(server=name, model="m")._client.secrets == ()
        return
    with pytest.raises(ConfigurationError, match=server.key_variables[0]):
        openai.LLM(server=name, model="m")
    monkeypatch.setenv(server.key_variables[0], KEY)
    assert KEY in openai.LLM(server=name, model="m")._client.secrets
    regional = f"https://eu.{server.domain}/v1"
    assert KEY in openai.LLM(server=name, model="m", base_url=regional)._client.secrets
    assert KEY not in openai.LLM(server=name, model="m", base_url="http://127.0.0.1:9/v1")._client.secrets
    assert KEY not in openai.LLM(model="m", base_url=server.base_url)._client.secrets


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in ("azure", "openai")])
def test_a_server_needs_a_model_and_says_where_they_are_listed(name: ServerName) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} needs model") as caught:
        openai.LLM(server=name, api_key=KEY)
    assert BY_NAME[name].models in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.together.xyz/v1", "together"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://api.mistral.ai.example.org/v1", "server"),
        ("http://127.0.0.1:11434/v1", "server"),
        ("https://res.openai.azure.com/openai/v1", "azure"),
    ],
)
def test_a_server_without_a_name_is_known_by_its_host(base_url: str, name: str) -> None:
    assert server_of(None, base_url).name == name


async def test_a_model_that_is_not_there_is_named_with_what_to_do() -> None:
    async with OpenAITwin("ollama", models=("qwen3:8b",)) as twin:
        async with openai.LLM(server="ollama", model="qwen9", base_url=twin.url) as llm:
            with pytest.raises(ProviderStatusError, match="'qwen9'.*ollama pull"):
                _ = [event async for event in llm.generate(GenerateRequest(context=ChatContext([said("Hi")])))]


async def test_a_server_on_this_machine_that_does_not_run_is_to_be_started() -> None:
    async with openai.LLM(server="ollama", model="m", base_url="http://127.0.0.1:1/v1") as llm:
        with pytest.raises(ProviderError, match="start it: ollama serve"):
            _ = [event async for event in llm.generate(GenerateRequest(context=ChatContext([said("Hi")])))]


def test_each_name_has_an_entry() -> None:
    assert set(get_args(ServerName)) == set(BY_NAME)
    assert set(MANNERS) <= set(BY_NAME)
