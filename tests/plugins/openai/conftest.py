"""A scripted server for each test, no key in the environment, and a request to send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, ChatMessage
from vivavoce.plugins import openai
from vivavoce.plugins.openai.options import Api
from vivavoce.plugins.openai.twin import OpenAITwin


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own settings for the SDK."""
    for name in ("API_KEY", "BASE_URL", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def server() -> AsyncIterator[OpenAITwin]:
    """A server without a script yet."""
    async with OpenAITwin() as running:
        yield running


@pytest.fixture
async def make_llm(server: OpenAITwin) -> AsyncIterator[Callable[..., openai.LLM]]:
    """Return a function that makes an LLM on the server; they are closed after the test."""
    made: list[openai.LLM] = []

    def make(*, api: Api = "chat", api_key: str | None = None, options: openai.LLMOptions | None = None) -> openai.LLM:
        made.append(openai.LLM(model="m", base_url=server.url, api=api, api_key=api_key, options=options))
        return made[-1]

    yield make
    for llm in made:
        await llm.aclose()


@pytest.fixture
def hello() -> GenerateRequest:
    """A request with one user message."""
    return asking(ChatMessage(role="user", content="Hello"))


@pytest.fixture
def ask() -> Callable[..., GenerateRequest]:
    """Return a function that makes a request of history items and request fields."""
    return asking


@pytest.fixture
def answer() -> Callable[[openai.LLM, GenerateRequest], object]:
    """Return a function that reads an answer to its end."""

    async def read(llm: openai.LLM, request: GenerateRequest) -> list[LLMEvent]:
        return [event async for event in llm.generate(request)]

    return read


def asking(*items: ChatItem, **fields: object) -> GenerateRequest:
    """Return a request."""
    return GenerateRequest(context=ChatContext(items), **fields)  # type: ignore[arg-type]
