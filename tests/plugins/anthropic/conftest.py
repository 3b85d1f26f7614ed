"""A twin for each test, no key in the environment, and a request to send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kit.chat import user
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.plugins import anthropic
from vivavoce.plugins.anthropic.twin import Answer, Twin

MODEL = "claude-sonnet-4-5"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own settings."""
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def twin() -> AsyncIterator[Twin]:
    """A twin without a script yet."""
    async with Twin(min_cached_tokens=10) as running:
        yield running


@pytest.fixture
async def make_llm(twin: Twin) -> AsyncIterator[Callable[..., anthropic.LLM]]:
    """Return a function that makes an LLM on the twin; they are closed after the test."""
    made: list[anthropic.LLM] = []

    def make(*, model: str = MODEL, api_key: str = "secret", **options: Any) -> anthropic.LLM:
        llm = anthropic.LLM(model=model, base_url=twin.url, api_key=api_key, options=anthropic.LLMOptions(**options))
        made.append(llm)
        return llm

    yield make
    for llm in made:
        await llm.aclose()


@pytest.fixture
def ask() -> Callable[..., GenerateRequest]:
    """Return a function that makes a request of history items and request fields."""
    return asking


@pytest.fixture
def hello() -> GenerateRequest:
    """A request with one user message."""
    return asking(user("Hello"))


@pytest.fixture
def answer() -> Callable[[anthropic.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]:
    """Return a function that reads an answer to its end."""

    async def read(llm: anthropic.LLM, request: GenerateRequest) -> list[LLMEvent]:
        return [event async for event in llm.generate(request)]

    return read


@pytest.fixture
def sent(twin: Twin, make_llm: Callable[..., anthropic.LLM]) -> Callable[..., Awaitable[Any]]:
    """Return a function that sends a history and returns the body that the twin took."""

    async def send(*items: ChatItem, model: str = MODEL, llm: dict[str, Any] | None = None, **fields: Any) -> Any:
        twin.add(Answer("Fine."))
        async for _ in make_llm(model=model, **(llm or {})).generate(asking(*items, **fields)):
            pass
        return twin.bodies[-1]

    return send


def asking(*items: ChatItem, **fields: Any) -> GenerateRequest:
    """Return a request."""
    return GenerateRequest(context=ChatContext(items), **fields)
