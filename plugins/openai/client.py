"""The clients of this plugin's components, one of the SDK for the LLM and one for the others."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.one_loop import OneLoop
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.openai.endpoint import Endpoint

if TYPE_CHECKING:
    import openai

MODULES = ("openai", "openai.resources.chat", "openai.resources.responses")
"""Modules of the SDK that are imported with a component: that takes most of a second, which would delay an answer."""


class SDKClient:
    """The SDK's client of an LLM, made with the first request, for one event loop.

    Raises:
        ConfigurationError: The SDK is not installed.
    """

    def __init__(self, endpoint: Endpoint, options: ConnectionOptions) -> None:
        for module in MODULES:
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise ConfigurationError(
                    f"openai.LLM needs the openai SDK, which does not import ({error}); run: pip install "
                    "'vivavoce[openai]'"
                ) from error
        self.endpoint = endpoint
        self.base_url = endpoint.url
        self.options = options
        self._sdk = OneLoop("openai.LLM", lambda: _sdk(endpoint, options), lambda sdk: sdk.close())

    @property
    def shown_url(self) -> str:
        """The address without parts that may be secret."""
        return keys.shown_url(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show."""
        values = (*self.endpoint.headers.values(), *self.options.extra_headers.values())
        return tuple(part for value in values for part in (value, *value.split()[1:]))

    def headers(self, signature: dict[str, str]) -> dict[str, Any]:
        """Return the headers of a request.

        Args:
            signature: Those of the endpoint for this request.
        """
        import openai

        given = {**self.endpoint.headers, **signature}
        no_key = {} if "Authorization" in given else {"Authorization": openai.Omit()}
        return {**no_key, **given, **self.options.extra_headers}

    def here(self) -> openai.AsyncOpenAI:
        """Return the SDK's client of the running loop.

        Raises:
            ConfigurationError: It is closed, or belongs to another loop.
        """
        return self._sdk.here()

    async def aclose(self) -> None:
        """Close the connections; requests that still run fail.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._sdk.aclose()


def net_client(name: str, endpoint: Endpoint, options: ConnectionOptions) -> Client:
    """Return the client of a component that does not need the SDK."""
    query = f"?{urlencode(endpoint.query)}" if endpoint.query else ""
    return Client(name, f"{endpoint.url}{query}", headers=endpoint.headers, options=options)


def _sdk(endpoint: Endpoint, options: ConnectionOptions) -> openai.AsyncOpenAI:
    import httpx2
    import openai

    timeout = httpx2.Timeout(options.read_timeout, connect=options.connect_timeout)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=options.keepalive)
    url = endpoint.url
    return openai.AsyncOpenAI(
        api_key="none",  # never sent: each request has the header, or omits it
        base_url=f"http{url.removeprefix('ws')}" if url.startswith("ws") else url,
        default_query=dict(endpoint.query) or None,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpx2Client(timeout=timeout, limits=limits),
    )
