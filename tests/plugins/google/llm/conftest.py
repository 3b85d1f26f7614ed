"""A twin for each test, no key in the environment, and a request to send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kit.chat import user
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.plugins import google
from vivavoce.plugins.google.twin import Answer, Twin

MODEL = "gemini-3.8-flash"
VARIABLES = (
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
)


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own settings; those of the folder above are gone already."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def twin() -> AsyncIterator[Twin]:
    """A twin without a script yet."""
    async with Twin(min_cached_tokens=10) as running:
        yield running


@pytest.fixture
async def make_llm(twin: Twin) -> AsyncIterator[Callable[..., google.LLM]]:
    """Return a function that makes an LLM on the twin; they are closed after the test."""
    made: list[google.LLM] = []

    def make(*, model: str = MODEL, api_key: str = "secret", **options: Any) -> google.LLM:
        llm = google.LLM(model=model, base_url=twin.url, api_key=api_key, options=google.LLMOptions(**options))
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
def answer() -> Callable[[google.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]:
    """Return a function that reads an answer to its end."""

    async def read(llm: google.LLM, request: GenerateRequest) -> list[LLMEvent]:
        return [event async for event in llm.generate(request)]

    return read


@pytest.fixture
def sent(twin: Twin, make_llm: Callable[..., google.LLM]) -> Callable[..., Awaitable[Any]]:
    """Return a function that sends a history and returns the body that the twin took."""

    async def send(*items: ChatItem, model: str = MODEL, llm: dict[str, Any] | None = None, **fields: Any) -> Any:
        twin.add(Answer("Fine."))
        async for _ in make_llm(model=model, **(llm or {})).generate(asking(*items, **fields)):
            pass
        assert twin.refused == []
        return twin.bodies[-1]

    return send


def asking(*items: ChatItem, **fields: Any) -> GenerateRequest:
    """Return a request."""
    return GenerateRequest(context=ChatContext(items), **fields)
