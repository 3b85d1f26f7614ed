"""Keys, addresses, models and options: each mistake names what was asked, what there is and what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.net_users import check_clean
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderStatusError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.plugins import google
from vivavoce.plugins.google.access import find_access
from vivavoce.plugins.google.twin import Answer, Refuse, Twin

MakeLLM = Callable[..., google.LLM]
Read = Callable[[google.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
KEY = "AIza-very-secret"


async def asked(twin: Twin, llm: google.LLM, hello: GenerateRequest) -> dict[str, str]:
    """Return the headers of a request."""
    twin.add(Answer("Fine."))
    async with llm:
        async for _ in llm.generate(hello):
            pass
    return {name.lower(): value for name, value in twin.requests[-1].headers.items()}


async def test_the_environments_key_goes_to_the_environments_server(
    twin: Twin, hello: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"{twin.url}/")
    monkeypatch.setenv("GEMINI_API_KEY", "second")
    assert (await asked(twin, google.LLM(), hello))["x-goog-api-key"] == "second"
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    assert (await asked(twin, google.LLM(), hello))["x-goog-api-key"] == KEY
    assert twin.requests[-1].model == google.DEFAULT_LLM_MODEL


async def test_a_server_of_ones_own_gets_a_given_key_only(
    twin: Twin, hello: GenerateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    assert (await asked(twin, google.LLM(base_url=twin.url, api_key="given"), hello))["x-goog-api-key"] == "given"
    async with google.LLM(base_url=twin.url) as llm:
        with pytest.raises(ProviderStatusError, match="403"):
            async for _ in llm.generate(hello):
                pass
    assert "unregistered callers" in twin.refused[0]


@pytest.mark.parametrize(
    ("model", "base_url", "url"),
    [
        ("m", None, "https://generativelanguage.googleapis.com/v1/models/m"),
        ("models/m", "https://gateway/gemini/", "https://gateway/gemini/v1/models/m"),
        ("tunedModels/m", "https://gateway/v1beta", "https://gateway/v1beta/tunedModels/m"),
    ],
)
def test_a_model_has_the_address_that_the_sdk_gives_it(model: str, base_url: str | None, url: str) -> None:
    access = find_access(model, KEY, base_url, None)
    assert f"{access.base_url}/{access.version}/{access.model_path}" == url


def test_a_repr_shows_model_and_server_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    llm = google.LLM()
    assert repr(llm) == "google.LLM(model='gemini-3.8-flash', base_url='https://generativelanguage.googleapis.com')"
    assert (llm.provider, llm.model) == ("google", google.DEFAULT_LLM_MODEL)
    assert llm.capabilities == LLMCapabilities(supports_tools=True, supports_images=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "set GOOGLE_API_KEY or GEMINI_API_KEY or give api_key, or vertex=Vertex"),
        ({"api_key": "with space"}, "printable ASCII without spaces"),
        ({"api_key": KEY, "model": ""}, "model must be a name such as 'gemini-3.8-flash', got ''"),
        ({"api_key": KEY, "model": "../other?x"}, "model must be a name"),
        ({"api_key": KEY, "base_url": "nonsense"}, "https://generativelanguage.googleapis.com"),
        ({"api_key": KEY, "vertex": google.Vertex(project="p")}, "needed api_key, or a project"),
        ({"api_key": KEY, "options": google.LLMOptions(thinking=100)}, "takes a level of thinking, got a budget: 100"),
        (
            {"api_key": KEY, "model": "gemini-2.5-flash", "options": google.LLMOptions(thinking="low")},
            "'gemini-2.5-flash' takes a budget of thinking in tokens, got a level: 'low'",
        ),
    ],
)
def test_a_wrong_argument_says_what_to_do(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        google.LLM(**arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 2.5}, "0 <= temperature <= 2"),
        ({"thinking": "a lot"}, "'short', 'minimal'"),
        ({"thinking": True}, "a number of tokens"),
        ({"thinking": -2}, "thinking"),
        ({"connect_timeout": 0}, "connect_timeout"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        google.LLMOptions(**options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"project": "a/b"}, "project must be a name"),
        ({"location": "europe west"}, "location must be a name"),
        ({"credentials": "key.json"}, "from_service_account_file"),
    ],
)
def test_a_wrong_access_is_refused_at_once(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        google.Vertex(**fields)
    assert says in str(caught.value)


async def test_a_model_that_there_is_not_is_named_with_the_place_that_lists_them(hello: GenerateRequest) -> None:
    async with Twin(models=["gemini-3.8-flash"]) as twin:
        async with google.LLM(model="gemini-7", base_url=twin.url, api_key=KEY) as llm:
            with pytest.raises(ProviderStatusError) as caught:
                await anext(llm.generate(hello))
    for fact in ("404", "NOT_FOUND", "models/gemini-7 is not found", "gemini-api/docs/models", "base_url"):
        assert fact in str(caught.value)


async def test_a_key_for_another_product_is_refused_with_what_to_do(hello: GenerateRequest) -> None:
    async with Twin(keys=[KEY]) as twin:
        async with google.LLM(base_url=twin.url, api_key="sk-proj-4711") as llm:
            with pytest.raises(ProviderStatusError) as caught:
                await anext(llm.generate(hello))
    error = caught.value
    assert (error.status, error.retryable) == (400, False)
    for fact in ("API_KEY_INVALID", "API key not valid", "https://aistudio.google.com/apikey"):
        assert fact in str(error)
    check_clean(error, "sk-proj-4711")


LIMITS = {
    "minute": (Refuse(code=429, retry_delay="26.5s", quota_id="RequestsPerMinutePerProjectPerModel"), True, 26.5),
    "day": (Refuse(code=429, retry_delay="26s", quota_id="RequestsPerDayPerProjectPerModel-FreeTier"), False, 26.0),
    "header": (Refuse(code=429, retry_delay="26s", headers={"Retry-After": "7"}), True, 7.0),
    "no word": (Refuse(code=429), True, None),
    "odd": (Refuse(code=429, retry_delay="soon"), True, None),
    "overload": (Refuse(code=503), True, None),
    "internal": (Refuse(code=500), True, None),
    "blocked key": (Refuse(code=403, reason="API_KEY_SERVICE_BLOCKED"), False, None),
}


@pytest.mark.parametrize(("refusal", "retryable", "wait"), LIMITS.values(), ids=LIMITS)
async def test_a_limit_says_whether_and_when_to_try_again(
    twin: Twin,
    make_llm: MakeLLM,
    answer: Read,
    hello: GenerateRequest,
    refusal: Refuse,
    retryable: bool,
    wait: float | None,
) -> None:
    twin.add(refusal)
    with pytest.raises(ProviderStatusError) as caught:
        await answer(make_llm(), hello)
    assert (caught.value.retryable, caught.value.retry_after) == (retryable, wait)
    if refusal.code == 403:
        assert "aistudio.google.com/apikey" in str(caught.value)


async def test_a_refused_request_says_why_without_words_of_the_conversation(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Refuse(code=400, message="Hello is not allowed"), Refuse(code=400, message="Not with secret."))
    with pytest.raises(ProviderStatusError, match="INVALID_ARGUMENT") as caught:
        await answer(make_llm(), hello)
    check_clean(caught.value, "Hello")
    with pytest.raises(ProviderStatusError, match=r"Not with \*\*\*") as caught:
        await answer(make_llm(), hello)
    check_clean(caught.value, "secret")


async def test_headers_of_the_application_are_sent(twin: Twin, make_llm: MakeLLM, hello: GenerateRequest) -> None:
    headers = await asked(twin, make_llm(extra_headers={"x-team": "voice"}), hello)
    assert headers["x-team"] == "voice"
