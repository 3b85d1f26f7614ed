"""Keys, addresses, models and options: each mistake names what was asked, what there is and what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.net_users import check_clean
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderStatusError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.plugins import anthropic
from vivavoce.plugins.anthropic.twin import Answer, Refuse, Twin

MakeLLM = Callable[..., anthropic.LLM]
Read = Callable[[anthropic.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
KEY = "sk-ant-api03-very-secret"


async def headers_of(twin: Twin, llm: anthropic.LLM, hello: GenerateRequest) -> dict[str, str]:
    twin.add(Answer("Fine."))
    async with llm:
        async for _ in llm.generate(hello):
            pass
    return {name.lower(): value for name, value in twin.requests[-1].headers.items()}


async def test_the_environments_key_goes_to_the_environments_server(
    twin: Twin, hello: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{twin.url}/v1/")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a-token")
    headers = await headers_of(twin, anthropic.LLM(), hello)
    assert headers["authorization"] == "Bearer a-token"
    assert twin.bodies[-1]["model"] == anthropic.DEFAULT_MODEL
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    headers = await headers_of(twin, anthropic.LLM(), hello)
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers


async def test_a_server_of_ones_own_gets_a_given_key_only(
    twin: Twin, hello: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    headers = await headers_of(twin, anthropic.LLM(model="m", base_url=twin.url, auth_token="given"), hello)
    assert headers["authorization"] == "Bearer given"
    async with anthropic.LLM(model="m", base_url=twin.url) as llm:
        with pytest.raises(ProviderStatusError, match="401"):
            async for _ in llm.generate(hello):
                pass
    assert twin.refused == ["x-api-key header is required"]


def test_a_repr_shows_model_and_server_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    llm = anthropic.LLM()
    assert repr(llm) == "anthropic.LLM(model='claude-haiku-5-5', base_url='https://api.anthropic.com')"
    assert (llm.provider, llm.model) == ("anthropic", anthropic.DEFAULT_MODEL)
    assert llm.capabilities == LLMCapabilities(supports_tools=True, supports_images=True)


async def test_the_default_model_does_not_think_unless_it_is_told_to(
    twin: Twin, hello: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", twin.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    await headers_of(twin, anthropic.LLM(), hello)
    await headers_of(twin, anthropic.LLM(options=anthropic.LLMOptions(thinking="adaptive")), hello)
    await headers_of(twin, anthropic.LLM(model="claude-opus-5-5"), hello)
    assert [body.get("thinking") for body in twin.bodies] == [{"type": "disabled"}, {"type": "adaptive"}, None]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "set ANTHROPIC_API_KEY or give api_key (or ANTHROPIC_AUTH_TOKEN, auth_token), or base_url"),
        ({"api_key": "a", "auth_token": "b"}, "got both"),
        ({"api_key": "with space"}, "printable ASCII without spaces"),
        ({"base_url": "http://127.0.0.1:1"}, "needs model"),
        ({"model": "m", "base_url": "nonsense"}, "https://api.anthropic.com"),
    ],
)
def test_a_wrong_argument_says_what_to_do(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        anthropic.LLM(**arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 1.5}, "0 <= temperature <= 1"),
        ({"caching": "2h"}, "'5m', '1h'"),
        ({"thinking": "on"}, "'adaptive'"),
        ({"thinking": 100}, "1024 <= thinking < max_output_tokens"),
        ({"thinking": 2048}, "1024 <= thinking < max_output_tokens"),
        ({"thinking": 1024, "temperature": 0.5}, "temperature=None"),
        ({"connect_timeout": 0}, "connect_timeout"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        anthropic.LLMOptions(**options)
    assert says in str(caught.value)


async def test_a_model_that_there_is_not_is_named_with_the_place_that_lists_them(hello: GenerateRequest) -> None:
    async with Twin(models=["claude-haiku-5-5"]) as twin:
        async with anthropic.LLM(model="claude-7", base_url=twin.url, api_key=KEY) as llm:
            with pytest.raises(ProviderStatusError) as caught:
                await anext(llm.generate(hello))
    for fact in ("404", "not_found_error", "model: claude-7", "docs/en/about-claude/models", "base_url"):
        assert fact in str(caught.value)


async def test_a_key_for_another_product_is_refused_with_what_to_do(hello: GenerateRequest) -> None:
    async with Twin(keys=[KEY]) as twin:
        async with anthropic.LLM(model="m", base_url=twin.url, api_key="sk-proj-4711") as llm:
            with pytest.raises(ProviderStatusError, match="check the API key: .* begins with sk-ant-api") as caught:
                await anext(llm.generate(hello))
    check_clean(caught.value, "sk-proj-4711")


async def test_a_refused_request_says_why_without_words_of_the_conversation(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Refuse(400, "max_tokens: 2048 > 64"), Refuse(400, "messages: Hello is not allowed, says sk-ant-api03-x"))
    with pytest.raises(ProviderStatusError, match="invalid_request_error, request req_twin; max_tokens: 2048 > 64"):
        await answer(make_llm(), hello)
    with pytest.raises(ProviderStatusError) as caught:
        await answer(make_llm(), hello)
    check_clean(caught.value, "sk-ant-api03-x", "Hello")


async def test_headers_of_the_application_are_sent(twin: Twin, make_llm: MakeLLM, hello: GenerateRequest) -> None:
    llm = make_llm(extra_headers={"anthropic-beta": "context-1m", "x-team": "voice"})
    headers = await headers_of(twin, llm, hello)
    assert (headers["anthropic-beta"], headers["x-team"]) == ("context-1m", "voice")
