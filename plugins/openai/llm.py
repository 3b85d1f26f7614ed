"""LLM: the language model's port on the official SDK; the module that does the I/O."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.core.trace_context import trace_headers
from vivavoce.pipelines.llm.base import LLM as LLMPort
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.pipelines.net.keys import shown_url
from vivavoce.plugins.openai.chat import ChatReader, chat_body
from vivavoce.plugins.openai.client import SDKClient
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.endpoint import Azure, checked_model, find_endpoint
from vivavoce.plugins.openai.failures import provider_error, sdk_errors
from vivavoce.plugins.openai.options import Api, LLMOptions
from vivavoce.plugins.openai.responses import ResponsesReader, build_events, responses_body
from vivavoce.plugins.openai.servers import OPENAI, Server, ServerName
from vivavoce.plugins.openai.wire import PROVIDER, Reader, RequestDefaults

if TYPE_CHECKING:
    import openai

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "gpt-5.4-mini"
DEFAULT_EFFORT = "none"
"""The effort for the default model; a caller waits."""

REFUSALS = frozenset({"content_filter", "content_policy_violation"})
"""Codes of a refused request that mean its content (https://learn.microsoft.com/azure/foundry/openai/concepts/
content-filter)."""


class LLM(OpenAIComponent[SDKClient], LLMPort):
    """A language model of OpenAI, or of a server with its API, such as `openai.LLM(server="groq", model="…")`.

    One may be shared by the sessions of one event loop; its connections open with the first request. To make one takes
    up to a second, the first time in a process: the SDK is imported, and builds its classes for `api="responses"`. Make
    it in `WorkerOptions.prewarm`, since an entrypoint runs on the event loop of all calls.

    Args:
        model: `DEFAULT_MODEL` unless given; another server needs one. On Azure, the deployment.
        server: One of those that are known by name (`ServerName`), with its address, its key's variable, and what it
            takes and refuses; `"azure"`, or `openai.Azure(…)`.
        api_key: Else the key in the server's variable, such as `OPENAI_API_KEY`; a `base_url` gets a given one only,
            but for the named server's own hosts.
        base_url: Of another server, such as `"http://127.0.0.1:11434/v1"`, or another address of the named one.
        api: Chat completions, which every server has, or responses.
    Raises:
        ConfigurationError: The SDK is not installed, the key or the model is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        server: ServerName | Azure | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        api: Api = "chat",
        options: LLMOptions | None = None,
    ) -> None:
        if api not in get_args(Api):
            raise ConfigurationError(f"api must be one of {get_args(Api)}, got {api!r}")
        self._options = options or LLMOptions()
        self._api = api
        if isinstance(server, Azure) and server.api_version and api == "responses":
            raise ConfigurationError(f"api 'responses' needs v1 of Azure's API; leave out {server.api_version!r}")
        endpoint = find_endpoint(server, model=model, api_key=api_key, base_url=base_url)
        client = SDKClient(endpoint, self._options)
        default = DEFAULT_MODEL if endpoint.server is OPENAI else ""
        super().__init__(checked_model(endpoint, model, default), endpoint, client)
        self._defaults = request_defaults(self._model, endpoint.server, endpoint.url, self._options)
        if api == "responses":
            build_events()

    def __repr__(self) -> str:
        return f"openai.LLM(model={self.model!r}, base_url={self._client.shown_url!r}, api={self._api!r})"

    @property
    def capabilities(self) -> LLMCapabilities:
        return LLMCapabilities(supports_tools=self._endpoint.server.takes_tools, supports_images=True)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step; see the port. Closing it closes the HTTP response; a refusal is spoken and ends as `refusal`.

        Raises:
            ProviderError: As `failures` and `wire` map it; the SDK makes no retries.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        client = self._client.here()
        signature = await self._endpoint.sign()
        failures = self._failures(request.texts, signature)
        reader: Reader
        if self._api == "chat":
            reader = ChatReader(request, self._defaults.maker, failures)
        else:
            reader = ResponsesReader(request, self._defaults.maker, failures)
        failure: ProviderError | None = None
        is_refused = False
        try:
            async with self._answer(client, request, signature) as events:
                async for event in events:
                    for item in reader.feed(event):
                        yield item
        except sdk_errors() as error:
            failure = provider_error(error, failures)
            is_refused = getattr(error, "code", None) in REFUSALS
        if is_refused:
            yield Done("refusal")
            return
        if failure is not None:
            if not reader.is_complete:
                raise failure
            logger.warning("the connection failed after the end of an answer, which stands: %s", failure)
        for item in reader.finish():
            yield item

    @asynccontextmanager
    async def _answer(
        self, client: openai.AsyncOpenAI, request: GenerateRequest, signature: dict[str, str]
    ) -> AsyncIterator[AsyncIterator[Any]]:
        body = chat_body(request, self._defaults) if self._api == "chat" else responses_body(request, self._defaults)
        body["extra_body"] = {**body.get("extra_body", {}), **self._options.extra_body} or None
        body["extra_headers"] = {**self._client.headers(signature), **trace_headers()}
        stream: openai.AsyncStream[Any]
        if self._api == "chat":
            stream = await client.chat.completions.create(**body)
        else:
            stream = await client.responses.create(**body)
        async with stream:
            yield stream


def request_defaults(model: str, server: Server, url: str, options: LLMOptions) -> RequestDefaults:
    """Return the values that all requests have in common: defaults, and the dialect of the server."""
    is_openai = server.is_openai if options.dialect == "auto" else options.dialect == "openai"
    effort = options.reasoning_effort or server.reasoning_effort
    if effort is None and model == DEFAULT_MODEL and url == OPENAI.base_url:
        effort = DEFAULT_EFFORT
    maker = f"{PROVIDER} {shown_url(url).rstrip('/')}"
    return RequestDefaults(
        model=model, maker=maker, options=options, is_openai=is_openai, server=server, reasoning_effort=effort
    )
