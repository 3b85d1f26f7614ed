"""LLM: the language model's port on Gemini's `streamGenerateContent`; the module that does the I/O."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from vivavoce.pipelines.core.trace_context import trace_headers
from vivavoce.pipelines.llm.base import LLM as LLMPort
from vivavoce.pipelines.llm.base import GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.pipelines.llm.streamed import streamed_answer
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.plugins.google.access import find_access
from vivavoce.plugins.google.llm_failures import LLMFailures
from vivavoce.plugins.google.llm_request import RequestDefaults, request_body
from vivavoce.plugins.google.llm_wire import PROVIDER, Reader
from vivavoce.plugins.google.models import thinking_config, wants_signatures
from vivavoce.plugins.google.options import LLMOptions, Vertex

DEFAULT_LLM_MODEL = "gemini-3.8-flash"

MODELS_PAGE = "https://ai.google.dev/gemini-api/docs/models"
KEY_REMEDY = "check the API key: https://aistudio.google.com/apikey lists those of the Gemini API"
CLOUD_REMEDY = "check the credentials, and whether they are of this project"


class LLM(LLMPort):
    """A Gemini model, by the Gemini API, by Google Cloud (Vertex AI), or by a server with the same API.

    One may be shared by the sessions of one event loop; its connections open with the first request.

    Args:
        model: `DEFAULT_LLM_MODEL` unless given. With Google Cloud also `publisher/model`, or the path of an endpoint.
        api_key: Else the environment's `GOOGLE_API_KEY` or `GEMINI_API_KEY`, if there is no `base_url`.
        base_url: Of another server, with or without the API's version; else the environment's `GOOGLE_GEMINI_BASE_URL`
            (`GOOGLE_VERTEX_BASE_URL`).
        vertex: Access by Google Cloud; True: as the environment says. None: if the environment has
            `GOOGLE_GENAI_USE_VERTEXAI=true` (or `GOOGLE_GENAI_USE_ENTERPRISE=true`).
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        *,
        model: str = DEFAULT_LLM_MODEL,
        api_key: str | None = None,
        base_url: str | None = None,
        vertex: Vertex | bool | None = None,
        options: LLMOptions | None = None,
    ) -> None:
        options = options or LLMOptions()
        self._access = find_access(model, api_key, base_url, vertex)
        self._client = Client("google.LLM", self._access.base_url, headers=self._access.headers, options=options)
        self._model = model
        self._defaults = RequestDefaults(
            maker=f"{PROVIDER} {self._client.shown_url} {model}",
            options=options,
            thinking=thinking_config(options.thinking, model),
            wants_signatures=wants_signatures(model),
        )

    def __repr__(self) -> str:
        return f"google.LLM(model={self.model!r}, base_url={self._client.shown_url!r})"

    @property
    def model(self) -> str:
        return self._model

    @property
    def capabilities(self) -> LLMCapabilities:
        return LLMCapabilities(supports_tools=True, supports_images=True)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step; see the port. Closing it closes the HTTP response.

        An answer that the server withholds ends with its reason, such as `SAFETY`, and calls nothing.

        Raises:
            ProviderError: As `LLMFailures` maps it.
            ConfigurationError: It is closed, or belongs to another event loop; Google Cloud has no credentials.
        """
        path, headers = await self._access.place(self._failures(request))
        failures = self._failures(request, *headers.values())
        reader = Reader(request, self._defaults.maker, failures)
        body = request_body(request, self._defaults)
        sending = self._client.request(
            f"{path}:streamGenerateContent",
            failures,
            json=body,
            query={"alt": "sse"},
            headers={**trace_headers(), **headers},
        )
        async with sending as response, aclosing(streamed_answer(response, reader)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Close the connections. Requests that still run fail.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._client.aclose()

    def _failures(self, request: GenerateRequest, *secrets: str) -> LLMFailures:
        return LLMFailures(
            provider=PROVIDER,
            redact=Redaction((*self._client.secrets, *secrets), request.texts),
            remedies={404: f"check model ({self._model!r}; {MODELS_PAGE} lists them) and base_url"},
            key_remedy=KEY_REMEDY if self._access.cloud is None else CLOUD_REMEDY,
        )
