"""LLM: the language model's port on the official SDK; the module that does the I/O."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.core.trace_context import trace_headers
from vivavoce.pipelines.llm.base import LLM as LLMPort
from vivavoce.pipelines.llm.base import GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.pipelines.net.keys import shown_url
from vivavoce.plugins.openai.chat import ChatReader, chat_body
from vivavoce.plugins.openai.client import DEFAULT_BASE_URL, SDKClient, checked_model
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.failures import openai_failures, provider_error, sdk_errors
from vivavoce.plugins.openai.options import Api, LLMOptions
from vivavoce.plugins.openai.responses import ResponsesReader, build_events, responses_body
from vivavoce.plugins.openai.wire import PROVIDER, Reader, RequestDefaults

if TYPE_CHECKING:
    import openai

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "gpt-5.4-mini"
DEFAULT_EFFORT = "none"
"""The effort for the default model; a caller waits."""

OPENAI_HOSTS = (".openai.com", ".azure.com")
"""Ends of the host names with OpenAI's own dialect."""


class LLM(OpenAIComponent[SDKClient], LLMPort):
    """A language model of OpenAI, or of a server with its API.

    One may be shared by the sessions of one event loop; its connections open with the first request. To make one takes
    up to a second, the first time in a process: the SDK is imported, and builds its classes for `api="responses"`. Make
    it in `WorkerOptions.prewarm`, since an entrypoint runs on the event loop of all calls.

    Args:
        model: `DEFAULT_MODEL` unless given; a server at `base_url` needs one.
        api_key: Else the environment's `OPENAI_API_KEY`, if there is no `base_url`.
        base_url: Of another server, such as `"http://127.0.0.1:11434/v1"`.
        api: Chat completions, which every server has, or responses.
    Raises:
        ConfigurationError: The SDK is not installed, the key or the model is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        api: Api = "chat",
        options: LLMOptions | None = None,
    ) -> None:
        if api not in get_args(Api):
            raise ConfigurationError(f"api must be one of {get_args(Api)}, got {api!r}")
        self._options = options or LLMOptions()
        self._api = api
        client = SDKClient(api_key=api_key, base_url=base_url, options=self._options)
        super().__init__(checked_model(model, base_url, DEFAULT_MODEL, "; ask it with GET /models"), client)
        self._defaults = request_defaults(model, base_url, self._options)
        if api == "responses":
            build_events()

    def __repr__(self) -> str:
        return f"LLM(model={self.model!r}, base_url={self._client.shown_url!r}, api={self._api!r})"

    @property
    def capabilities(self) -> LLMCapabilities:
        return LLMCapabilities(supports_tools=True, supports_images=True)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step; see the port. Closing it closes the HTTP response; a refusal is spoken and ends as `refusal`.

        Raises:
            ProviderError: As `failures` and `wire` map it; the SDK makes no retries.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        client = self._client.here()
        failures = openai_failures(self._client.secrets, request.texts)
        reader: Reader
        if self._api == "chat":
            reader = ChatReader(request, self._defaults.maker)
        else:
            reader = ResponsesReader(request, self._defaults.maker, failures)
        failure: ProviderError | None = None
        try:
            async with self._answer(client, request) as events:
                async for event in events:
                    for item in reader.feed(event):
                        yield item
        except sdk_errors() as error:
            failure = provider_error(error, failures)
        if failure is not None:
            if not reader.is_complete:
                raise failure
            logger.warning("the connection failed after the end of an answer, which stands: %s", failure)
        for item in reader.finish():
            yield item

    @asynccontextmanager
    async def _answer(self, client: openai.AsyncOpenAI, request: GenerateRequest) -> AsyncIterator[AsyncIterator[Any]]:
        extra: dict[str, Any] = {
            "extra_headers": {**self._client.headers, **trace_headers()},
            "extra_body": dict(self._options.extra_body) or None,
        }
        stream: openai.AsyncStream[Any]
        if self._api == "chat":
            stream = await client.chat.completions.create(**chat_body(request, self._defaults), **extra)
        else:
            stream = await client.responses.create(**responses_body(request, self._defaults), **extra)
        async with stream:
            yield stream


def request_defaults(model: str | None, base_url: str | None, options: LLMOptions) -> RequestDefaults:
    """Return the values that all requests have in common: defaults, and the dialect of the server's host."""
    model = model or DEFAULT_MODEL
    server = base_url or DEFAULT_BASE_URL
    host = f".{urlsplit(server).hostname}"
    is_openai = host.endswith(OPENAI_HOSTS) if options.dialect == "auto" else options.dialect == "openai"
    effort = options.reasoning_effort
    if effort is None and model == DEFAULT_MODEL and base_url is None:
        effort = DEFAULT_EFFORT
    maker = f"{PROVIDER} {shown_url(server).rstrip('/')}"
    return RequestDefaults(model=model, maker=maker, options=options, is_openai=is_openai, reasoning_effort=effort)
