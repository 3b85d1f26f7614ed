"""Keys, servers, options and the missing extra: the arguments of an LLM, and its description of itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.plugins import openai
from vivavoce.plugins.openai.llm import request_defaults
from vivavoce.plugins.openai.options import Dialect
from vivavoce.plugins.openai.servers import server_of
from vivavoce.plugins.openai.twin import OpenAITwin, chat_answer

Read = Callable[[openai.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
MakeLLM = Callable[..., openai.LLM]

KEY = "very-secret-4711"
LOCAL = "http://127.0.0.1:9/v1"


def test_without_a_key_the_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        openai.LLM()


@pytest.mark.parametrize("blank", ["", "  \n"])
def test_a_blank_key_is_none(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", blank)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        openai.LLM(api_key=blank)


def test_the_default_model_with_a_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm = openai.LLM()
    assert (llm.provider, llm.model) == ("openai", openai.DEFAULT_MODEL)
    assert llm.capabilities.supports_images
    assert llm.capabilities.supports_tools


def test_no_secret_shows() -> None:
    options = openai.LLMOptions(extra_headers={"X-Key": KEY}, extra_body={"key": KEY})
    llm = openai.LLM(api_key=KEY, model="m", base_url=f"http://user:{KEY}@127.0.0.1:9/v1?key={KEY}", options=options)
    assert KEY not in f"{llm!r} {llm} {options!r}"
    assert repr(llm) == "openai.LLM(model='m', base_url='http://127.0.0.1:9/v1', api='chat')"


@pytest.mark.parametrize("key", [f"{KEY}\nX-Evil: 1", f"{KEY} {KEY}", "clé"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        openai.LLM(api_key=key)
    assert key not in str(caught.value)


async def test_a_key_read_from_a_file_may_end_with_a_line_break(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    server.add(chat_answer("Hi."))
    await answer(make_llm(api_key=f"{KEY}\n"), hello)
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_the_environments_key_does_not_go_to_other_servers(
    server: OpenAITwin,
    make_llm: MakeLLM,
    answer: Read,
    hello: GenerateRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
    server.add(chat_answer("Hi."))
    await answer(make_llm(), hello)
    assert "Authorization" not in server.requests[0].headers
    assert KEY not in str(server.requests)


async def test_extra_headers_are_sent_and_may_authorize(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    server.add(chat_answer("Hi."))
    headers = {"X-Tenant": "a", "Authorization": "Basic abc"}
    await answer(make_llm(options=openai.LLMOptions(extra_headers=headers)), hello)
    assert {name: server.requests[0].headers[name] for name in headers} == headers


def test_a_server_of_ones_own_needs_a_model() -> None:
    with pytest.raises(ConfigurationError, match="needs model"):
        openai.LLM(base_url=LOCAL)


@pytest.mark.parametrize("url", ["127.0.0.1:11434/v1", "localhost", "", "ftp://127.0.0.1/v1", "http://", "http://[::1"])
def test_a_base_url_must_be_one(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url must be a URL"):
        openai.LLM(model="m", base_url=url)


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'chat', 'responses'"):
        openai.LLM(model="m", base_url=LOCAL, api="assistants")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 3},
        {"max_output_tokens": 0},
        {"dialect": "latin"},
        {"image_detail": "most"},
        {"connect_timeout": 0},
        {"read_timeout": -1},
        {"keepalive": -1},
        {"extra_headers": {"X-Name": "a\nX-Evil: 1"}},
        {"extra_headers": {"X-Name": "clé"}},
    ],
)
def test_options_check_themselves(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        openai.LLMOptions(**fields)


@pytest.mark.parametrize(
    ("base_url", "dialect", "is_openai"),
    [
        (None, "auto", True),
        ("https://eu.api.openai.com/v1", "auto", True),
        ("https://mine.openai.azure.com/openai/v1", "auto", True),
        ("https://api.openai.com.example.org/v1", "auto", False),
        ("https://notopenai.com/v1", "auto", False),
        (LOCAL, "auto", False),
        (LOCAL, "openai", True),
        (None, "compatible", False),
    ],
)
def test_the_dialect_follows_the_servers_name(base_url: str | None, dialect: Dialect, is_openai: bool) -> None:
    defaults = request_defaults("m", server_of(None, base_url), base_url or "", openai.LLMOptions(dialect=dialect))
    assert defaults.is_openai is is_openai


@pytest.mark.parametrize(
    ("model", "base_url", "given", "sent"),
    [
        (None, None, None, "none"),
        (openai.DEFAULT_MODEL, None, None, "none"),
        (None, None, "low", "low"),
        ("gpt-4.1-mini", None, None, None),
        (openai.DEFAULT_MODEL, LOCAL, None, None),
    ],
)
def test_the_default_model_does_not_reason_unless_told_to(
    model: str | None, base_url: str | None, given: str | None, sent: str | None
) -> None:
    options = openai.LLMOptions(reasoning_effort=given)
    server = server_of(None, base_url)
    defaults = request_defaults(model or openai.DEFAULT_MODEL, server, base_url or server.base_url, options)
    assert defaults.reasoning_effort == sent


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[openai\]'"):
        openai.LLM(model="m", base_url=LOCAL)


BUILT = """
from typing import get_args
from openai.types.responses import ResponseStreamEvent
from vivavoce.plugins import openai
openai.LLM(model="m", base_url="http://127.0.0.1:1/v1", api="responses")
events = get_args(get_args(ResponseStreamEvent)[0])
assert len(events) > 40 and all(event.__pydantic_complete__ for event in events)
"""


def test_the_first_answer_of_the_responses_api_builds_none_of_the_sdk_s_classes_within_the_event_loop() -> None:
    done = subprocess.run([sys.executable, "-c", BUILT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
