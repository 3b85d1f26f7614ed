"""openai.Embedder, against a server on loopback with the wire of `embeddings`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from vivavoce.agents.knowledge import KnowledgeBase
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderProtocolError,
    ProviderStatusError,
)
from vivavoce.pipelines.testing import check_embedder
from vivavoce.plugins import openai

KEY = "sk-secret-123456"


@dataclass
class Server:
    """A server: vectors count three words. Its answer may be replaced."""

    url: str = ""
    answer: web.Response | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers.get("Authorization", ""))
        if self.answer is not None:
            return self.answer
        vectors = [[float(text.lower().count(word)) for word in ("nine", "cake", "word")] for text in body["input"]]
        data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(vectors)]
        return web.json_response({"object": "list", "data": data[::-1], "usage": {"prompt_tokens": 5}})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    served = Server()
    app = web.Application()
    app.router.add_post("/v1/embeddings", served.embeddings)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield served
    await runner.cleanup()


async def test_it_keeps_the_promises_of_an_embedder(server: Server) -> None:
    await check_embedder(lambda: openai.Embedder("m", dimensions=3, base_url=server.url))
    assert server.requests[0]["encoding_format"] == "float"
    assert "dimensions" not in server.requests[0]
    assert set(server.keys) == {""}


async def test_a_knowledge_base_finds_passages_by_it(server: Server) -> None:
    async with (
        openai.Embedder("m", dimensions=3, base_url=server.url, api_key=KEY) as embedder,
        KnowledgeBase(embedder=embedder) as base,
    ):
        await base.add_text("We open at nine.", source="hours")
        await base.add_text("The cake is sold out.", source="menu")
        assert [passage.source for passage in await base.search("nine", 1)] == ["hours"]
    assert set(server.keys) == {f"Bearer {KEY}"}


async def test_a_model_of_openai_is_asked_for_shorter_vectors(server: Server) -> None:
    async with openai.Embedder("text-embedding-3-large", dimensions=3, base_url=server.url) as embedder:
        await embedder.embed(["nine"])
    assert server.requests[0]["dimensions"] == 3


@pytest.mark.parametrize(
    ("answer", "kind", "needed"),
    [
        (web.Response(status=401, text=json.dumps({"error": {"message": f"bad {KEY}"}})), ProviderStatusError, "401"),
        (web.Response(text="<html>"), ProviderProtocolError, "has embeddings"),
        (web.Response(text='{"data": [{"index": 0}]}'), ProviderProtocolError, "KeyError"),
        (web.Response(text="[" * 100_000), ProviderProtocolError, "RecursionError"),
    ],
)
async def test_a_failure_names_neither_the_key_nor_the_text(
    server: Server, answer: web.Response, kind: type[Exception], needed: str
) -> None:
    server.answer = answer
    async with openai.Embedder("m", dimensions=3, base_url=server.url, api_key=KEY) as embedder:
        with pytest.raises(kind, match=needed) as caught:
            await embedder.embed(["the secret question"])
        assert KEY not in repr(embedder) + repr(caught.value)
        assert "secret question" not in repr(caught.value)


async def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    async with openai.Embedder("m", dimensions=3, base_url="http://127.0.0.1:9/v1") as embedder:
        with pytest.raises(ProviderConnectionError):
            await embedder.embed(["nine"])


def test_missing_arguments_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        openai.Embedder()
    assert openai.Embedder(api_key=KEY).dimensions == 1536
    for arguments, needed in (
        ({"base_url": "http://127.0.0.1:9"}, "needs model"),
        ({"model": "m", "base_url": "http://127.0.0.1:9"}, "needs dimensions"),
        ({"model": "m", "base_url": "nowhere", "dimensions": 3}, "127.0.0.1:11434"),
        ({"dimensions": 0, "api_key": KEY}, "dimensions >= 1"),
    ):
        with pytest.raises(ConfigurationError, match=needed):
            openai.Embedder(**arguments)
