"""LLM: the language model's port on the official SDK; the one place here that does I/O."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.llm.base import LLM as LLMPort
from vivavoce.pipelines.llm.base import GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.plugins.openai.chat import ChatReader, chat_body
from vivavoce.plugins.openai.failures import Redaction, provider_errors
from vivavoce.plugins.openai.options import Api, LLMOptions
from vivavoce.plugins.openai.responses import ResponsesReader, responses_body
from vivavoce.plugins.openai.wire import PROVIDER, Asking, Reader

if TYPE_CHECKING:
    import openai

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "gpt-5.4-mini"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_EFFORT = "none"
"""Of the default model; a caller waits."""

KEY_VARIABLE = "OPENAI_API_KEY"
OPENAI_HOSTS = (".openai.com", ".azure.com")
"""Ends of the names of hosts that speak OpenAI's own dialect."""


class LLM(LLMPort):
    """A language model of OpenAI, or of a server that speaks its API.

    One may be shared by the sessions of one event loop; its connections open with the first request.

    Args:
        model: `DEFAULT_MODEL` unless given; a server at `base_url` needs one.
        api_key: Else the environment's `OPENAI_API_KEY`, if there is no `base_url`.
        base_url: Of another server, such as `"http://127.0.0.1:11434/v1"`.
        api: Chat completions, which every server has, or responses.
    Raises:
        ConfigurationError: The SDK is not installed, the key or the model is missing, or an argument makes no sense.
    """

    provider = PROVIDER

    def __init__(
        self,
        *,
        model: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        api: Api = "chat",
        options: LLMOptions | None = None,
    ) -> None:
        _check_sdk(api)
        self._options = options or LLMOptions()
        self._api = api
        self._base_url = DEFAULT_BASE_URL if base_url is None else _checked_url(base_url)
        self._key = _key(api_key, base_url)
        self._asking = asking(model, base_url, self._options)
        self._client: openai.AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"LLM(model={self.model!r}, base_url={_shown(self._base_url)!r}, api={self._api!r})"

    @property
    def model(self) -> str:
        return self._asking.model

    @property
    def capabilities(self) -> LLMCapabilities:
        return LLMCapabilities(supports_tools=True, supports_images=True)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step; see the port. Closing it closes the HTTP response; a refusal is spoken and ends as `refusal`.

        Raises:
            ProviderError: As `failures` and `wire` map it; the SDK tries nothing again.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        client = self._client_here()
        redact = Redaction((self._key, *self._options.extra_headers.values()), request)
        reader: Reader = ChatReader(request) if self._api == "chat" else ResponsesReader(request, redact)
        try:
            with provider_errors(redact):
                async with self._answer(client, request) as events:
                    async for event in events:
                        for item in reader.feed(event):
                            yield item
        except ProviderError as error:
            if not reader.is_complete:
                raise
            logger.warning("the connection failed after the end of an answer, which stands: %s", error)
        for item in reader.finish():
            yield item

    async def aclose(self) -> None:
        """Close the connections; requests that still run fail.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        is_lost = self._loop is not None and self._loop.is_closed()  # the sockets went with the loop
        if self._client is not None and not is_lost:
            self._check_loop()
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None and not is_lost:
            await client.close()

    @asynccontextmanager
    async def _answer(self, client: openai.AsyncOpenAI, request: GenerateRequest) -> AsyncIterator[AsyncIterator[Any]]:
        extra: dict[str, Any] = {"extra_headers": self._headers(), "extra_body": dict(self._options.extra_body) or None}
        stream: openai.AsyncStream[Any]
        if self._api == "chat":
            stream = await client.chat.completions.create(**chat_body(request, self._asking), **extra)
        else:
            stream = await client.responses.create(**responses_body(request, self._asking), **extra)
        async with stream:
            yield stream

    def _headers(self) -> dict[str, Any]:
        import openai

        no_key = {} if self._key else {"Authorization": openai.Omit()}
        return {**no_key, **self._options.extra_headers}

    def _client_here(self) -> openai.AsyncOpenAI:
        if self._is_closed:
            raise ConfigurationError("this openai.LLM is closed; make another one")
        if self._client is None:
            self._loop = asyncio.get_running_loop()
            self._client = _client(self._key, self._base_url, self._options)
        self._check_loop()
        return self._client

    def _check_loop(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            raise ConfigurationError(
                "needed the event loop of the first request, which holds the connections, got another one; make an "
                "openai.LLM for each event loop"
            )


def _client(key: str, base_url: str, options: LLMOptions) -> openai.AsyncOpenAI:
    import httpx2
    import openai

    timeout = httpx2.Timeout(options.read_timeout, connect=options.connect_timeout)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=options.keepalive)
    return openai.AsyncOpenAI(
        api_key=key or "none",  # never sent: each request omits the header then
        base_url=base_url,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpx2Client(timeout=timeout, limits=limits),
    )


def _check_sdk(api: Api) -> None:
    """Import the SDK, which takes most of a second, now and not while somebody waits for the first answer."""
    if api not in get_args(Api):
        raise ConfigurationError(f"api must be one of {get_args(Api)}, got {api!r}")
    try:
        import openai.resources.chat
        import openai.resources.responses  # noqa: F401 - the SDK would import it with the first request
    except ImportError as error:
        raise ConfigurationError(
            f"openai.LLM needs the openai SDK, which does not import ({error}); run: pip install 'vivavoce[openai]'"
        ) from error


def _checked_url(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ConfigurationError(
            f"base_url must be a URL such as 'http://127.0.0.1:11434/v1', got {_shown(base_url)!r}"
        )
    return base_url


def _shown(base_url: str) -> str:
    """Return the URL without what may be secret in it: a password before the host, a query."""
    scheme, separator, rest = base_url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2].partition('?')[0]}"


def _key(api_key: str | None, base_url: str | None) -> str:
    key = api_key.strip() if api_key is not None else ""
    if not key and base_url is None:
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key:
            raise ConfigurationError(
                f"needed an API key, got none; set {KEY_VARIABLE} or give api_key, or give base_url for a server of "
                "your own, which needs none"
            )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError("the API key must be printable ASCII without spaces, got other characters; check it")
    return key


def asking(model: str | None, base_url: str | None, options: LLMOptions) -> Asking:
    """Return what each request has in common: defaults, and the dialect that the server's name tells.

    Raises:
        ConfigurationError: There is a `base_url`, but no model.
    """
    if not model:
        if base_url is not None:
            raise ConfigurationError(f"a server of your own needs model, got {model!r}; ask it with GET /models")
        model = DEFAULT_MODEL
    host = f".{urlsplit(base_url or DEFAULT_BASE_URL).hostname}"
    is_openai = host.endswith(OPENAI_HOSTS) if options.dialect == "auto" else options.dialect == "openai"
    effort = options.reasoning_effort
    if effort is None and model == DEFAULT_MODEL and base_url is None:
        effort = DEFAULT_EFFORT
    return Asking(model=model, options=options, is_openai=is_openai, reasoning_effort=effort)
