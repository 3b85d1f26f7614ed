"""Embedder: OpenAI's embeddings of texts, and those of every server with its `embeddings`."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

from vivavoce.pipelines.core.checks import check_text, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderProtocolError
from vivavoce.pipelines.embedder import base
from vivavoce.pipelines.embedder.base import Embeddings
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.openai.client import net_client
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.endpoint import Azure, checked_model, find_endpoint
from vivavoce.plugins.openai.servers import SERVERS, ServerName
from vivavoce.plugins.openai.wire import PROVIDER

DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"
MAX_BODY = 64_000_000
"""Bytes of an answer: 100 vectors of 3,072 numbers are 7 MB of JSON."""


class Embedder(OpenAIComponent[Client], base.Embedder):
    """An embedding model of OpenAI, or of a server that has its `embeddings`; share one between the sessions of one
    event loop.

        openai.Embedder()                                                                # OPENAI_API_KEY
        openai.Embedder("nomic-embed-text", server="ollama", dimensions=768)
        openai.Embedder("text-embedding-3-large", server="azure", dimensions=1024)

    Args:
        model: `DEFAULT_EMBEDDING_MODEL` unless given, or the usual one of the named server; another server needs one.
            On Azure, the deployment.
        dimensions: The length of its vectors; needed for models whose length is not known (`servers`). Some models make
            shorter vectors on request.
        server, api_key, base_url: As for `openai.LLM`.
    Raises:
        ConfigurationError: The server has no embeddings, the key, the model or its dimensions are missing, or an
            argument is invalid.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        dimensions: int | None = None,
        server: ServerName | Azure | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        options: ConnectionOptions | None = None,
    ) -> None:
        check_whole("dimensions", dimensions, at_least=1, or_none=True)
        check_text("model", model or DEFAULT_EMBEDDING_MODEL)
        endpoint = find_endpoint(server, model=model, api_key=api_key, base_url=base_url)
        vectors = endpoint.server.vectors
        if vectors is None:
            there = ", ".join(one.name for one in SERVERS if one.vectors is not None)
            raise ConfigurationError(f"{endpoint.server.name} has no embeddings; those with embeddings: {there}")
        name = checked_model(endpoint, model, vectors.model)
        usual = vectors.dimensions.get(name)
        if dimensions is None and usual is None:
            raise ConfigurationError(
                f"the model {name!r} needs dimensions, the length of its vectors, got None; its page says it"
            )
        self._vectors = vectors
        self._dimensions = dimensions or usual or 0
        self._asks_for_length = self._dimensions != usual and name in vectors.shortened
        super().__init__(name, endpoint, net_client("openai.Embedder", endpoint, options or ConnectionOptions()))

    def __repr__(self) -> str:
        return f"Embedder({self._model!r}, dimensions={self._dimensions}, base_url={self._client.shown_url!r})"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of the texts; see the port. One request, sent once.

        Raises:
            ProviderError: There are none.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        if not texts:
            return Embeddings([])
        body: dict[str, Any] = {"model": self._model, "input": list(texts)}
        if self._vectors.encoding:
            body["encoding_format"] = self._vectors.encoding
        if self._asks_for_length:
            body[self._vectors.length_field] = self._dimensions
        signature = await self._endpoint.sign()
        asked = f"asked for embeddings of model {self._model!r} with {self._dimensions} dimensions"
        failures = self._failures(lambda: texts, signature, asked=asked)
        data = bytearray()
        async with self._client.request("embeddings", failures, json=body, headers=signature) as response:
            async for piece in response.chunks():
                data += piece
                if len(data) > MAX_BODY:
                    raise ProviderProtocolError(f"needed at most {MAX_BODY} bytes, got more", provider=PROVIDER)
        return embeddings_of(bytes(data), "b" if self._vectors.encoding == "base64_int8" else "f")


def embeddings_of(data: bytes, kind: str) -> Embeddings:
    """Return the vectors of an answer, in the order of their texts.

    Args:
        kind: Of the numbers of a vector that is base64, as in `struct`.
    Raises:
        ProviderProtocolError: It is of another shape.
    Source: platform.openai.com/docs/api-reference/embeddings (`data`: `index`, `embedding`; `usage`: `prompt_tokens`).
    """
    try:
        answer = json.loads(data)
        found = sorted(answer["data"], key=lambda one: int(one["index"]))
        used = (answer.get("usage") or {}).get("prompt_tokens")
        tokens = used if isinstance(used, int) else None  # some servers report none
        return Embeddings([_numbers(one["embedding"], kind) for one in found], input_tokens=tokens)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, struct.error) as error:
        problem = type(error).__name__
    # outside of the block: the error would be this one's context, and it holds the answer
    raise ProviderProtocolError(
        f'needed {{"data": [{{"index": 0, "embedding": […]}}]}}, got another answer ({problem}); check base_url, and '
        "whether the server has embeddings",
        provider=PROVIDER,
    )


def _numbers(vector: Any, kind: str) -> list[float]:
    if isinstance(vector, str):
        data = base64.b64decode(vector, validate=True)
        vector = struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data)
    return [float(number) for number in vector]
