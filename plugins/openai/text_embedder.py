"""Embedder: OpenAI's embeddings of texts, and those of every server with its `embeddings`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from vivavoce.pipelines.core.checks import check_text, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderProtocolError
from vivavoce.pipelines.embedder import base
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.plugins.openai.wire import PROVIDER

DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"
DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
"""Of OpenAI's models."""
SHORTENED = ("text-embedding-3-small", "text-embedding-3-large")
"""Models that make shorter vectors on request."""
BASE_URL = "https://api.openai.com/v1"
MAX_BODY = 64_000_000
"""Bytes of an answer: 100 vectors of 3,072 numbers are 7 MB of JSON."""


class Embedder(base.Embedder):
    """An embedding model of OpenAI, or of a server that has its `embeddings`; share one between the sessions of one
    event loop.

        openai.Embedder()                                                                # OPENAI_API_KEY
        openai.Embedder("nomic-embed-text", base_url="http://127.0.0.1:11434/v1", dimensions=768)

    Args:
        model: `DEFAULT_EMBEDDING_MODEL` unless given; a server at `base_url` needs one.
        dimensions: The length of its vectors; needed for models that are not OpenAI's. OpenAI's newer models make
            shorter vectors on request.
        api_key: Else the environment's `OPENAI_API_KEY`, if there is no `base_url`.
    Raises:
        ConfigurationError: The key, the model or its dimensions are missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        model: str | None = None,
        *,
        dimensions: int | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        options: ConnectionOptions | None = None,
    ) -> None:
        if not model and base_url is not None:
            raise ConfigurationError(f"a server of your own needs model, got {model!r}; ask it with GET /models")
        check_whole("dimensions", dimensions, at_least=1, or_none=True)
        self._model = check_text("model", model or DEFAULT_EMBEDDING_MODEL)
        usual = DIMENSIONS.get(self._model)
        if dimensions is None and usual is None:
            raise ConfigurationError(
                f"the model {self._model!r} needs dimensions, the length of its vectors, got None; its page says it"
            )
        self._dimensions = dimensions or usual or 0
        self._asks_for_length = self._dimensions != usual and self._model in SHORTENED
        variables = ("OPENAI_API_KEY",) if base_url is None else ()
        key = keys.find_key(api_key, variables, remedy=", or give base_url for a server of your own, which needs none")
        url = BASE_URL if base_url is None else keys.checked_url(base_url, "http://127.0.0.1:11434/v1")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = Client("openai.Embedder", url, headers=headers, options=options)

    def __repr__(self) -> str:
        return f"Embedder({self._model!r}, dimensions={self._dimensions}, base_url={self._client.shown_url!r})"

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of the texts; see the port. One request, sent once.

        Raises:
            ProviderError: There are none.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        if not texts:
            return []
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._asks_for_length:
            body["dimensions"] = self._dimensions
        failures = Failures(provider=PROVIDER, redact=Redaction(self._client.secrets, lambda: texts))
        data = b""
        async with self._client.request("embeddings", failures, json=body) as response:
            async for piece in response.chunks():
                data += piece
                if len(data) > MAX_BODY:
                    raise ProviderProtocolError(f"needed at most {MAX_BODY} bytes, got more", provider=PROVIDER)
        return vectors_of(data)

    async def aclose(self) -> None:
        """Close the connections. Requests that still run fail.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._client.aclose()


def vectors_of(data: bytes) -> list[list[float]]:
    """Return the vectors of an answer, in the order of their texts.

    Raises:
        ProviderProtocolError: It is of another shape.
    Source: platform.openai.com/docs/api-reference/embeddings (`data`: `index`, `embedding`).
    """
    try:
        found = sorted(json.loads(data)["data"], key=lambda one: int(one["index"]))
        return [[float(number) for number in one["embedding"]] for one in found]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        problem = type(error).__name__
    # outside of the block: the error would be this one's context, and it holds the answer
    raise ProviderProtocolError(
        f'needed {{"data": [{{"index": 0, "embedding": […]}}]}}, got another answer ({problem}); check base_url, and '
        "whether the server has embeddings",
        provider=PROVIDER,
    )
