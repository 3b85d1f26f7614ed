"""The connections of this plugin's components: address, key, and the errors of the service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.component import NetComponent
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction

PROVIDER = "deepgram"
KEY_VARIABLE = "DEEPGRAM_API_KEY"

Region = Literal["", "eu", "au", "in"]
"""Where the audio is processed; empty: anywhere. Source: https://developers.deepgram.com/reference/regional-endpoints."""

STATUSES: Mapping[int | str, int] = {
    "MESSAGE-0000": 400,
    "DATA-0000": 400,
    "DATA-0002": 400,
    "BIG-0000": 413,
    "NET-0000": 503,
    "NET-0001": 408,
    "NET-0002": 503,
    "NET-0003": 503,
    "NET-0004": 503,
    "INTERNAL_SERVER_ERROR": 500,
}
"""Names of errors, also in the reason of a close, that mean a status. Source:
https://developers.deepgram.com/docs/stt-troubleshooting-websocket-data-and-net-errors."""

KEY_REMEDY = "check the API key, which must be one of console.deepgram.com"
PLAN_REMEDY = "check what the API key may do, and whether its project has this product and model"


class DeepgramComponent(NetComponent[Client]):
    """Holds a model's name and the client of its server.

    Args:
        name: The component's name for errors, such as `"deepgram.STT"`.
    """

    provider = PROVIDER

    def __init__(
        self,
        name: str,
        model: str,
        *,
        api_key: str | None,
        base_url: str | None,
        region: Region,
        options: ConnectionOptions,
    ) -> None:
        super().__init__(model, client_of(name, api_key=api_key, base_url=base_url, region=region, options=options))
        self._name = name

    def __repr__(self) -> str:
        return f"{self._name}(model={self._model!r}, base_url={self._client.shown_url!r})"


def client_of(
    name: str, *, api_key: str | None, base_url: str | None, region: Region, options: ConnectionOptions
) -> Client:
    """Return the client of a component.

    Args:
        api_key: A key, or a temporary token of `/v1/auth/grant`. The environment's key goes to hosts of deepgram.com
            only; a server of your own gets a given one.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """
    check_choice("region", region, get_args(Region))
    if region and base_url is not None:
        raise ConfigurationError(f"give region or base_url, got both: {region!r} and {keys.shown_url(base_url)!r}")
    url = f"https://api.{region}.deepgram.com" if region else "https://api.deepgram.com"
    if base_url is not None:
        url = keys.checked_url(base_url, "https://deepgram.example.com")
    is_theirs = keys.is_server_of(url, "deepgram.com")
    remedy = ", or give base_url for a server of your own"
    key = keys.find_key(api_key, (KEY_VARIABLE,) if is_theirs else (), remedy=remedy)
    scheme = "Bearer" if key.startswith("eyJ") else "Token"  # a temporary token is a JWT
    return Client(name, url, headers={"Authorization": f"{scheme} {key}"} if key else {}, options=options)


def failures_of(client: Client, *, asked: str, said: Iterable[str] = ()) -> Failures:
    """Return the errors of a component.

    Args:
        asked: What was asked for, what there is and what to do, if the server refuses it (400).
        said: Texts that no error may quote.
    """
    words = tuple(said)
    remedies = {400: asked, 401: KEY_REMEDY, 403: f"{PLAN_REMEDY}; {asked}"}
    return Failures(
        provider=PROVIDER, redact=Redaction(client.secrets, lambda: words), statuses=STATUSES, remedies=remedies
    )
