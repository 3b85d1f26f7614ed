"""Client: the common parts of this plugin's components: the key, the address, the SDK's client of one event loop."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    import openai

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The limits of connecting and reading.

    Each option: docs/options.md.
    """

    connect_timeout: float = 5.0
    """Seconds to connect."""
    read_timeout: float = 60.0
    """Seconds without a byte of an answer. A last resort: a session has shorter limits of its own."""
    keepalive: float = 120.0
    """Seconds that an idle connection is kept for the next turn, which saves the handshakes."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request."""

    def __post_init__(self) -> None:
        check_number("connect_timeout", self.connect_timeout, above=0, unit="s")
        check_number("read_timeout", self.read_timeout, above=0, unit="s")
        check_number("keepalive", self.keepalive, at_least=0, unit="s")
        for name, value in self.extra_headers.items():
            if not (name + value).isascii() or not (name + value).isprintable():
                raise ConfigurationError(f"extra_headers must be printable ASCII, got other characters in {name!r}")


class Client:
    """The SDK's client, made with the first request, for one event loop.

    Args:
        name: The component's name for errors, such as `"openai.LLM"`.
        modules: Modules of the SDK to import now: that takes most of a second, which would delay the first answer.
    Raises:
        ConfigurationError: The SDK is not installed, the key is missing, or an argument is invalid.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None,
        base_url: str | None,
        options: ConnectionOptions,
        modules: tuple[str, ...],
    ) -> None:
        self._name = name
        for module in ("openai", *modules):
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise ConfigurationError(
                    f"{name} needs the openai SDK, which does not import ({error}); run: pip install 'vivavoce[openai]'"
                ) from error
        self.base_url = DEFAULT_BASE_URL if base_url is None else checked_url(base_url)
        self.key = checked_key(api_key, base_url)
        self.options = options
        self._sdk: openai.AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    @property
    def shown_url(self) -> str:
        """The address without parts that may be secret."""
        return shown(self.base_url)

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
        if self._is_closed:
            raise ConfigurationError(f"this {self._name} is closed; make another one")
        if self._sdk is None:
            self._loop = asyncio.get_running_loop()
            self._sdk = _sdk(self.key, self.base_url, self.options)
        self._check_loop()
        return self._sdk

    async def aclose(self) -> None:
        """Close the connections; requests that still run fail.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        is_lost = self._loop is not None and self._loop.is_closed()  # the sockets were closed with the loop
        if self._sdk is not None and not is_lost:
            self._check_loop()
        self._is_closed = True
        sdk, self._sdk = self._sdk, None
        if sdk is not None and not is_lost:
            await sdk.close()

    def _check_loop(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            raise ConfigurationError(
                "needed the event loop of the first request, which holds the connections, got another one; make an "
                f"{self._name} for each event loop"
            )


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


def checked_url(base_url: str) -> str:
    """Return the address of a server.

    Raises:
        ConfigurationError: It is not a URL of a server.
    """
    try:
        parts = urlsplit(base_url)
        is_fine = parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ConfigurationError(f"base_url must be a URL such as 'http://127.0.0.1:11434/v1', got {shown(base_url)!r}")
    return base_url


def shown(base_url: str) -> str:
    """Return the URL without parts that may be secret: a password before the host, a query."""
    scheme, separator, rest = base_url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2].partition('?')[0]}"


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
