"""The connections of this plugin's components: address, key or token, and the errors of the service."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from vivavoce.pipelines.core.checks import check_function, check_text
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.client import Client, Query
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.pipelines.net.sockets import OnLost, OnMessage, Socket, open_socket
from vivavoce.pipelines.net.tokens import TokenProvider, token_of
from vivavoce.plugins.azure.wire import PROVIDER, new_request

KEY_VARIABLES = ("AZURE_SPEECH_KEY", "SPEECH_KEY", "AZURE_SPEECH_API_KEY")
REGION_VARIABLES = ("AZURE_SPEECH_REGION", "SPEECH_REGION")
ENDPOINT_VARIABLES = ("AZURE_SPEECH_ENDPOINT", "AZURE_SPEECH_HOST", "SPEECH_ENDPOINT")
"""The spellings in use: those of Microsoft's documents, of livekit-agents and of pipecat."""

REGION = re.compile(r"[a-z0-9]+")

REGION_HOST = re.compile(
    r"([a-z0-9]+)\.(?:api\.cognitive|(?:stt|tts|voice|s2s)\.speech)\.(?:microsoft\.com|azure\.cn|azure\.us)"
)
"""A host that belongs to a region: also the one that Azure's portal shows as the endpoint of a resource."""

CLOUDS = {"china": "azure.cn", "usgov": "azure.us"}
"""Beginnings of the regions of sovereign clouds -> their domain. Source: npm microsoft-cognitiveservices-speech-sdk
1.52.0, `common.speech/ConnectionFactoryBase.js`."""

RESOURCES = tuple(
    f"{service}.azure.{cloud}" for service in ("cognitiveservices", "services.ai") for cloud in ("com", "cn", "us")
)
"""Domains of the hosts that one resource has for itself."""

STATUSES: Mapping[int | str, int] = {
    "TooManyRequests": 429,
    "BadRequest": 400,
    "Forbidden": 403,
    "unsupported": 400,
    "ssml": 400,
}
"""Names of errors, and words in the reason of a close, that mean a status. Source: as above, `EnumTranslation.js`, and
the issues that the twin cites."""


@dataclass(frozen=True, slots=True)
class Service:
    """The addresses of a service.

    Args:
        host: Of a region's host, such as `"stt"`.
        in_region: The path at a region's host.
        in_resource: The path at a resource's own host.
        in_container: The path at a container of your own.
    """

    host: str
    in_region: str
    in_resource: str
    in_container: str


class AzureComponent(Component):
    """Opens the websockets of one service.

    Args:
        name: The component's name for errors, such as `"azure.STT"`.
        api_key, token_provider, region, base_url: As the component's own.
    Raises:
        ConfigurationError: The key or the region is missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        name: str,
        service: Service,
        *,
        api_key: str | None,
        token_provider: TokenProvider | None,
        region: str | None,
        base_url: str | None,
        options: ConnectionOptions,
    ) -> None:
        check_function("token_provider", token_provider, or_none=True)
        if api_key and token_provider is not None:
            raise ConfigurationError("give api_key or token_provider, got both")
        self._name = name
        self._token_provider = token_provider
        url, self._path = address_of(service, region, base_url)
        headers = {} if token_provider is not None else key_header(api_key, url)
        self._client = Client(name, url, headers=headers, options=options)

    @property
    def address(self) -> str:
        """The address of its websockets, whose scheme is that of HTTP."""
        return self._client.url(self._path)

    @property
    def is_newest(self) -> bool:
        """Whether the address is of the newest form of the service; containers have the older one."""
        return urlsplit(self.address).path.rstrip("/").endswith("/v2")

    def __repr__(self) -> str:
        return f"{self._name}(base_url={self._client.shown_url!r})"

    async def connect(
        self,
        query: Query,
        on_message: OnMessage,
        on_lost: OnLost,
        *,
        asked: str,
        said: Callable[[], Iterable[str]],
        component: str,
    ) -> tuple[Socket, Failures]:
        """Open a websocket; return it, before its start, and the errors of its messages.

        Args:
            asked: What was asked for, what there is and what to do, if the service refuses it.
            said: Returns texts that no error may quote.
        Raises:
            ProviderError: It cannot connect, or the service refuses, or there is no token.
        """
        token = await self._token()
        headers = {"X-ConnectionId": new_request(), **({"Authorization": f"Bearer {token}"} if token else {})}
        host = urlsplit(self._client.base_url).hostname
        remedies = {
            400: asked,
            401: f"check the API key or the token: it must be of a Speech or Foundry resource that {host} serves",
            403: f"check what the API key may do, the quota and the resource's network; {asked}",
        }
        failures = Failures(
            provider=PROVIDER,
            redact=Redaction((*self._client.secrets, token), said),
            statuses=STATUSES,
            remedies=remedies,
        )
        socket = await open_socket(
            self._client,
            self._path,
            query,
            failures,
            on_message=on_message,
            on_lost=on_lost,
            component=component,
            headers=headers,
        )
        return socket, failures

    async def aclose(self) -> None:
        """Close the idle connections; open websockets go on.

        Raises:
            ConfigurationError: They belong to another event loop, which still runs.
        """
        await self._client.aclose()

    async def _token(self) -> str:
        if self._token_provider is None:
            return ""
        limit = self._client.options.connect_timeout
        return await token_of(self._token_provider, provider=PROVIDER, name="token_provider", limit=limit)


def address_of(service: Service, region: str | None, base_url: str | None) -> tuple[str, str]:
    """Return the server of a service, and the path of its websocket; "" if the address has it.

    Raises:
        ConfigurationError: Both are given or none is, or the one that is given is invalid.
    """
    if region is not None and base_url is not None:
        raise ConfigurationError(f"give region or base_url, got both: {region!r} and {keys.shown_url(base_url)!r}")
    url = base_url or ("" if region is not None else _variable(ENDPOINT_VARIABLES))
    if url:
        parts = urlsplit(keys.checked_url(url, "https://my-speech.cognitiveservices.azure.com"))
        if "/speech/" in parts.path or "/websocket/" in parts.path:
            return url, ""
        found = REGION_HOST.fullmatch(parts.hostname or "")
        if found is None:
            is_resource = any(keys.is_server_of(url, domain) for domain in RESOURCES)
            return url, service.in_resource if is_resource else service.in_container
        region = found[1]
    region = _variable(REGION_VARIABLES) if region is None else check_text("region", region)
    if not region:
        variables = " or ".join(REGION_VARIABLES)
        raise ConfigurationError(f"needed the region of the Speech resource, got none; set {variables}, or give region")
    if REGION.fullmatch(region) is None:
        raise ConfigurationError(f"region must be a name such as 'westeurope', got {region!r}")
    cloud = next((domain for start, domain in CLOUDS.items() if region.startswith(start)), "microsoft.com")
    return f"https://{region}.{service.host}.speech.{cloud}", service.in_region


def key_header(api_key: str | None, url: str) -> dict[str, str]:
    """Return the header of a given key or token, else of the environment's key, which goes to Microsoft's hosts only.

    Raises:
        ConfigurationError: There is no key, or it has invalid characters.
    """
    is_theirs = REGION_HOST.fullmatch(urlsplit(url).hostname or "") or any(
        keys.is_server_of(url, domain) for domain in RESOURCES
    )
    remedy = ", or token_provider, or base_url for a container of your own"
    key = keys.find_key(api_key, KEY_VARIABLES if is_theirs else (), remedy=remedy)
    if key.startswith(("eyJ", "aad#")):  # a token
        return {"Authorization": f"Bearer {key}"}
    return {"Ocp-Apim-Subscription-Key": key} if key else {}


def _variable(names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")
