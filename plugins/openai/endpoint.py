"""Endpoint: a server's address with the key or token to send there; and Azure's resources."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.tokens import TokenProvider, token_of
from vivavoce.plugins.openai.servers import BY_NAME, OPENAI, OTHER, Server, ServerName, server_of

ENDPOINT_VARIABLE = "AZURE_OPENAI_ENDPOINT"
TOKEN_VARIABLE = "AZURE_OPENAI_AD_TOKEN"  # noqa: S105 - a name
TOKEN_LIMIT = 5.0
"""Seconds in which a function returns a token."""

OWN_SERVER = ", or give base_url for a server of your own, which needs none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Azure:
    """A resource of Azure OpenAI, as `server`; `model` is then the name of a deployment.

    Args:
        endpoint: Such as `"https://RESOURCE.openai.azure.com"`; else the environment's `AZURE_OPENAI_ENDPOINT`.
        token: Of Entra ID in place of a key: a text, or a function, sync or async, that returns one for each
            request. Else the key of
            the environment's `AZURE_OPENAI_API_KEY`, else the token of its `AZURE_OPENAI_AD_TOKEN`.
        api_version: Of the API before v1, such as `"2024-10-21"`, for a language model or voice; "": v1.
    """

    endpoint: str = ""
    token: str | TokenProvider | None = field(default=None, repr=False)
    api_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address, and what opens it.

    Args:
        query: Parameters of each request.
        headers: With the key, if there is one.
        token: Makes a header for each request.
        asks_for_model: Whether the address is another one than the server's usual one, which may lack its usual models.
    """

    server: Server
    url: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: TokenProvider | None = field(default=None, repr=False)
    asks_for_model: bool = False

    async def sign(self) -> dict[str, str]:
        """Return the headers of one request that `headers` does not have.

        Raises:
            ProviderError: There is no token.
        """
        if self.token is None:
            return {}
        token = await token_of(self.token, provider=OPENAI.name, name="the token function", limit=TOKEN_LIMIT)
        return {"Authorization": f"Bearer {token}"}


def find_endpoint(
    server: ServerName | Azure | None, *, model: str | None, api_key: str | None, base_url: str | None
) -> Endpoint:
    """Return the endpoint for the arguments of a component.

    Args:
        base_url: Of another address than the server's usual one.
    Raises:
        ConfigurationError: There is no such server, the key is missing, or an argument is invalid.
    """
    if isinstance(server, Azure) or server == "azure":
        return _azure(server if isinstance(server, Azure) else Azure(), model, api_key, base_url)
    url = "" if base_url is None else keys.checked_url(base_url, "http://127.0.0.1:11434/v1")
    found = server_of(server, base_url)
    url = url or found.base_url
    is_theirs = server is not None and bool(found.domain) and keys.is_server_of(url, found.domain)
    variables = found.key_variables if base_url is None or is_theirs else ()
    remedy = OWN_SERVER if found in (OPENAI, OTHER) else f" of {found.name}"
    key = keys.find_key(api_key, variables, remedy=remedy)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Endpoint(server=found, url=url, headers=headers, asks_for_model=server is None and base_url is not None)


def _azure(azure: Azure, model: str | None, api_key: str | None, base_url: str | None) -> Endpoint:
    given = base_url or azure.endpoint or os.environ.get(ENDPOINT_VARIABLE, "").strip()
    example = "https://RESOURCE.openai.azure.com"
    if not given:
        raise ConfigurationError(
            f"Azure needs the endpoint of your resource, got none; set {ENDPOINT_VARIABLE} or give "
            f"openai.Azure(endpoint={example!r})"
        )
    url = keys.checked_url(given, example).rstrip("/")
    for end in ("/v1", "/openai"):
        url = url.removesuffix(end)
    server = BY_NAME["azure"]
    is_theirs = keys.is_server_of(url, server.domain)
    if azure.api_version:
        if not model:
            raise ConfigurationError(f"Azure needs model, the name of a deployment, got {model!r}; {server.models}")
        place: dict[str, Any] = {
            "url": f"{url}/openai/deployments/{quote(model, safe='')}",
            "query": {"api-version": azure.api_version},
        }
    else:
        place = {"url": f"{url}/openai/v1"}
    place |= {"server": server, "asks_for_model": True}
    token = azure.token
    has_key = bool((api_key or "").strip() or (is_theirs and os.environ.get(server.key_variables[0], "").strip()))
    if token is not None and api_key:
        raise ConfigurationError("needed a key or a token for Azure, got both; give the one that the resource takes")
    if token is None and not has_key and is_theirs:
        token = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    if callable(token):
        return Endpoint(**place, token=token)
    if token is not None:
        return Endpoint(**place, headers={"Authorization": f"Bearer {keys.find_key(token, ())}"})
    remedy = f", or a token: openai.Azure(token=…) or {TOKEN_VARIABLE}"
    key = keys.find_key(api_key, server.key_variables if is_theirs else (), remedy=remedy)
    return Endpoint(**place, headers={"api-key": key} if key else {})


def checked_model(endpoint: Endpoint, model: str | None, default: str) -> str:
    """Return the given model, or the `default` of the server, "" for none.

    Raises:
        ConfigurationError: There is none.
    """
    if endpoint.server is OPENAI and endpoint.asks_for_model:
        default = ""
    if not model and not default:
        name = "a server of your own" if endpoint.server in (OTHER, OPENAI) else endpoint.server.name
        raise ConfigurationError(f"{name} needs model, got {model!r}; {endpoint.server.models}")
    return model or default
