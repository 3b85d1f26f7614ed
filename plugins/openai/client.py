"""The clients of this plugin's components, one of the SDK for the LLM and one for the others: key, address, limits."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.one_loop import OneLoop
from vivavoce.pipelines.net.options import ConnectionOptions

if TYPE_CHECKING:
    import openai

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"

MODULES = ("openai", "openai.resources.chat", "openai.resources.responses")
"""Modules of the SDK that are imported with a component: that takes most of a second, which would delay an answer."""


class SDKClient:
    """The SDK's client of an LLM, made with the first request, for one event loop.

    Raises:
        ConfigurationError: The SDK is not installed, the key is missing, or an argument is invalid.
    """

    def __init__(self, *, api_key: str | None, base_url: str | None, options: ConnectionOptions) -> None:
        for module in MODULES:
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise ConfigurationError(
                    f"openai.LLM needs the openai SDK, which does not import ({error}); run: pip install "
                    "'vivavoce[openai]'"
                ) from error
        self.base_url = checked_url(base_url)
        self.key = checked_key(api_key, base_url)
        self.options = options
        self._sdk = OneLoop("openai.LLM", lambda: _sdk(self.key, self.base_url, options), lambda sdk: sdk.close())

    @property
    def shown_url(self) -> str:
        """The address without parts that may be secret."""
        return keys.shown_url(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show."""
        return (self.key, *self.options.extra_headers.values())

    @property
    def headers(self) -> dict[str, Any]:
        """The headers of each request."""
        import openai

        no_key = {} if self.key else {"Authorization": openai.Omit()}
        return {**no_key, **self.options.extra_headers}

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


def net_client(name: str, *, api_key: str | None, base_url: str | None, options: ConnectionOptions) -> Client:
    """Return the client of a component that does not need the SDK.

    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """
    key = checked_key(api_key, base_url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Client(name, checked_url(base_url), headers=headers, options=options)


def _sdk(key: str, base_url: str, options: ConnectionOptions) -> openai.AsyncOpenAI:
    import httpx2
    import openai

    timeout = httpx2.Timeout(options.read_timeout, connect=options.connect_timeout)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=options.keepalive)
    is_websocket = base_url.startswith("ws")
    return openai.AsyncOpenAI(
        api_key=key or "none",  # never sent: each request omits the header then
        base_url=f"http{base_url.removeprefix('ws')}" if is_websocket else base_url,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpx2Client(timeout=timeout, limits=limits),
    )


def checked_url(base_url: str | None) -> str:
    """Return the address of the server.

    Raises:
        ConfigurationError: It is not a URL of a server.
    """
    return DEFAULT_BASE_URL if base_url is None else keys.checked_url(base_url, "http://127.0.0.1:11434/v1")


def checked_model(model: str | None, base_url: str | None, default: str, hint: str = "") -> str:
    """Return the given model, or `default`.

    Raises:
        ConfigurationError: There is a `base_url` without a model; `hint` says where to find one.
    """
    if not model and base_url is not None:
        raise ConfigurationError(f"a server of your own needs model, got {model!r}{hint}")
    return model or default


def checked_key(api_key: str | None, base_url: str | None) -> str:
    """Return the key to send; the environment's key goes to OpenAI only.

    Raises:
        ConfigurationError: OpenAI needs a key and there is none, or the key has invalid characters.
    """
    variables = (KEY_VARIABLE,) if base_url is None else ()
    return keys.find_key(api_key, variables, remedy=", or give base_url for a server of your own, which needs none")
