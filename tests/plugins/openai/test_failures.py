"""Failures at the server or on the way, as errors of our tree without secrets or content."""

from __future__ import annotations

import json
import logging
import socket
import traceback
from collections.abc import Awaitable, Callable

import pytest

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.testing import check_failure
from vivavoce.plugins import openai
from vivavoce.plugins.openai.options import Api
from vivavoce.plugins.openai.twin import (
    BREAK,
    HANG,
    Answer,
    OpenAITwin,
    Step,
    chat_answer,
    chat_call,
    chat_delta,
    refusal,
    responses_event,
)

Read = Callable[[openai.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Ask = Callable[..., GenerateRequest]
MakeLLM = Callable[..., openai.LLM]
Failing = Callable[..., Awaitable[ProviderError]]

KEY = "very-secret-4711"
APIS: tuple[Api, ...] = ("chat", "responses")


@pytest.fixture
def failing(server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest) -> Failing:
    """Return a function that lets a request fail and returns its error."""

    async def fail(*script: Step | Answer, api: Api = "chat", request: GenerateRequest = hello) -> ProviderError:
        steps = [step for step in script if not isinstance(step, Answer)]
        whole = [answer for answer in script if isinstance(answer, Answer)]
        server.add(*(whole or [Answer(steps=steps)]))
        with pytest.raises(ProviderError) as caught:
            await answer(make_llm(api=api, api_key=KEY), request)
        assert caught.value.provider == "openai"
        return caught.value

    return fail


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (403, False), (404, False), (422, False)]
    + [(408, True), (409, True), (429, True), (500, True), (502, True), (503, True), (529, True)],
)
async def test_statuses(failing: Failing, status: int, retryable: bool, api: Api) -> None:
    error = await failing(refusal(status, "no"), api=api)
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (status, retryable)
    assert f"status {status}" in str(error)
    assert "no" in str(error)


async def test_each_request_is_sent_once(failing: Failing, server: OpenAITwin) -> None:
    await failing(refusal(500, "down"))
    assert len(server.requests) == 1, "the pipeline tries again, not the SDK"


async def test_rate_limits_say_how_long_to_wait(failing: Failing) -> None:
    error = await failing(refusal(429, "slow down", code="rate_limit_exceeded", Retry_After="7", X_Request_Id="req_9"))
    assert error.retryable
    for fact in ("rate_limit_exceeded", "asks to wait 7 s", "req_9", "slow down"):
        assert fact in str(error)


async def test_a_used_up_quota_is_not_tried_again(failing: Failing) -> None:
    assert not (await failing(refusal(429, "no money", code="insufficient_quota"))).retryable


@pytest.mark.parametrize(("verdict", "status", "retryable"), [("false", 500, False), ("true", 400, True)])
async def test_the_server_knows_better_what_to_try_again(
    failing: Failing, verdict: str, status: int, retryable: bool
) -> None:
    assert (await failing(refusal(status, "so", X_Should_Retry=verdict))).retryable is retryable


@pytest.mark.parametrize(("status", "remedy"), [(401, "API key"), (404, "model and base_url")])
async def test_errors_say_what_to_do(failing: Failing, status: int, remedy: str) -> None:
    assert f"check {remedy}" in str(await failing(refusal(status, "no"))).replace("the API", "API")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"detail": "Not here"}, "Not here"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"object": "error", "message": "too long", "code": 400}, "too long"),
        ("<html><body>Bad gateway of a proxy</body></html>", ""),
        ({"error": {"message": "x" * 5000}}, "…"),
    ],
)
async def test_other_servers_words_are_understood(failing: Failing, body: object, shown: str) -> None:
    text = str(await failing(Answer(status=404, body=body)))
    assert shown in text
    assert "proxy" not in text
    assert len(text) < 500


async def test_secrets_are_masked(failing: Failing, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = await failing(refusal(401, f"Incorrect API key provided: {KEY} (or sk-proj-*****abcd)"))
    shown = "".join(traceback.format_exception(error)) + repr(error) + caplog.text
    assert KEY not in shown
    assert "sk-proj" not in shown
    assert "Incorrect API key provided: ***" in shown


@pytest.mark.parametrize("said", ["my account number is 12345678", "4711"])
async def test_the_conversation_is_not_quoted(
    failing: Failing, ask: Ask, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    request = ask(ChatMessage(role="user", content=said))
    echo = refusal(400, f"[{{'type': 'missing', 'input': {{'content': '{said}'}}}}]")
    error = await failing(echo, request=request)
    assert said not in "".join(traceback.format_exception(error)) + caplog.text
    assert "withheld" in str(error)


@pytest.mark.parametrize("api", APIS)
async def test_a_connection_cut_in_the_middle_may_be_tried_again(failing: Failing, api: Api) -> None:
    first: Step = chat_delta(content="Hel") if api == "chat" else responses_event("response.created", response={})
    error = await failing(first, BREAK, api=api)
    assert isinstance(error, ProviderConnectionError)
    assert error.retryable


async def test_half_a_tool_call_is_never_made(server: OpenAITwin, make_llm: MakeLLM, hello: GenerateRequest) -> None:
    server.add(Answer(steps=[chat_delta(content="Hm."), chat_call(0, "a", "book", "{}"), BREAK]))
    events = make_llm().generate(hello)
    assert await anext(events) == TextDelta("Hm.")
    with pytest.raises(ProviderConnectionError):
        await anext(events)


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_without_its_end_is_an_error(failing: Failing, api: Api) -> None:
    first: Step = chat_delta(content="Hel") if api == "chat" else responses_event("response.created", response={})
    error = await failing(first, api=api)
    assert isinstance(error, ProviderProtocolError)
    assert error.retryable
    assert "broke off" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        b"data: {nope\n\n",
        b"data: \xff\xfe\n\n",
        b"data: [1, 2]\n\n",
        b"data: null\n\n",
        b'data: "text"\n\n',
        b'data: {"choices": "x"}\n\n',
        b'data: {"choices": [{"delta": {"content": 5}}]}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": "x"}}]}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": 5}}]}}]}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": [7]}, "finish_reason": "stop"}]}\n\n',
        b"event: junk\n\n",
        b"this is no event stream\n",
    ],
)
async def test_malformed_chats_are_protocol_errors(failing: Failing, body: bytes) -> None:
    assert isinstance(await failing(body), ProviderProtocolError)


@pytest.mark.parametrize(
    "body",
    [
        b"data: {nope\n\n",
        b"data: [1, 2]\n\n",
        b"data: {}\n\n",
        b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": {"a": 1}}\n\n',
        b'data: {"type": "response.function_call_arguments.delta", "delta": "{}"}\n\n',
        b'data: {"type": "response.output_item.done", "item": {"type": "function_call"}}\n\n',
    ],
)
async def test_malformed_responses_are_protocol_errors(failing: Failing, body: bytes) -> None:
    assert isinstance(await failing(body, api="responses"), ProviderProtocolError)


async def test_a_page_instead_of_a_stream_points_at_base_url(failing: Failing) -> None:
    error = await failing(Answer(body="<html>Welcome</html>"))
    assert isinstance(error, ProviderProtocolError)
    assert "base_url" in str(error)


@pytest.mark.parametrize(
    ("fields", "status", "retryable"),
    [
        ({"code": "server_error"}, 500, True),
        ({"code": "rate_limit_exceeded"}, 429, True),
        ({"code": "insufficient_quota"}, 429, False),
        ({"code": "context_length_exceeded"}, 400, False),
        ({"code": 503}, 503, True),
        ({"code": "400"}, 400, False),
        ({"type": "server_error"}, 500, True),
    ],
)
async def test_errors_inside_of_a_chat(
    failing: Failing, fields: dict[str, object], status: int, retryable: bool
) -> None:
    error = await failing(chat_delta(content="Hel"), {"error": {"message": "that failed", **fields}})
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (status, retryable)
    assert "that failed" in str(error)


async def test_an_error_without_a_name_may_be_tried_again(failing: Failing) -> None:
    for body in ({"error": "out of memory"}, {"error": {"message": "out of memory"}}):
        error = await failing(body)
        assert error.retryable
        assert "out of memory" in str(error)


@pytest.mark.parametrize(
    "event",
    [
        responses_event("response.failed", response={"error": {"code": "server_error", "message": "that failed"}}),
        responses_event("error", code="server_error", message="that failed"),
    ],
)
async def test_errors_inside_of_a_response(failing: Failing, event: Step) -> None:
    error = await failing(event, api="responses")
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (500, True)
    assert "that failed" in str(error)


async def test_a_refused_connection_may_be_tried_again(answer: Read, hello: GenerateRequest) -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        async with openai.LLM(model="m", base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1") as llm:
            with pytest.raises(ProviderConnectionError, match="ConnectionRefusedError") as caught:
                await answer(llm, hello)
            assert caught.value.retryable
            await check_failure(lambda: llm.generate(hello))


@pytest.mark.parametrize("steps", [[HANG], [chat_delta(content="Hel"), HANG]])
async def test_a_silent_server_is_given_up_and_not_tried_again(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, steps: list[Step]
) -> None:
    server.add(Answer(steps=steps))
    with pytest.raises(ProviderTimeoutError, match="ReadTimeout") as caught:
        await answer(make_llm(options=openai.LLMOptions(read_timeout=0.2)), hello)
    assert not caught.value.retryable
    await server.client_is_gone()


def note(text: str) -> None:
    """Take a note."""


async def test_text_that_is_no_unicode_is_no_crash(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, ask: Ask
) -> None:
    server.default = chat_answer("Hi.")
    hello, tool = ChatMessage(role="user", content="\udcff"), Tool(note, description="half \udcff")
    assert (await answer(make_llm(), ask(hello)))[0] == TextDelta("Hi.")
    assert "\ufffd" in json.dumps(server.requests[-1].body, ensure_ascii=False)
    with pytest.raises(ProviderError, match="lone surrogate"):
        await answer(make_llm(), ask(hello, tools=(tool,)))


async def test_a_failure_leaves_the_llm_usable(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    llm = make_llm()
    server.add(refusal(500, "down"), Answer(steps=[BREAK]), Answer(steps=[b"data: {\n\n"]), chat_answer("Hi."))
    for _ in range(3):
        with pytest.raises(ProviderError):
            await answer(llm, hello)
    assert (await answer(llm, hello))[0] == TextDelta("Hi.")
