"""The connections of this plugin's components: address, key, and the errors of the service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction

PROVIDER = "assemblyai"
KEY_VARIABLE = "ASSEMBLYAI_API_KEY"

Region = Literal["", "eu"]
"""Where the audio is processed. Source: https://www.assemblyai.com/docs/streaming."""

VERSION = {"AssemblyAI-Version": "2025-05-12"}
"""The head of this name, as assemblyai 1.8.2 sends it (`streaming/v3/_base.py`)."""

STATUSES: Mapping[int | str, int] = {
    3005: 500,
    3006: 400,
    3008: 408,
    3009: 429,
    4001: 401,
    4002: 402,
    4003: 402,
    4029: 429,
    4031: 408,
    4102: 429,
    "too many concurrent": 429,
    "transmission rate exceeded": 429,
    "duration violation": 400,
    "insufficient": 402,
    "balance": 402,
    "unauthorized connection": 401,
}
"""Close codes, and words of a reason where a code has several meanings (1008, 3007), that mean a status. Sources:
https://www.assemblyai.com/docs/streaming/common-session-errors-and-closures, assemblyai 1.8.2 `RealTimeErrorCodes`."""

KEY_REMEDY = "check the API key, which must be one of www.assemblyai.com/dashboard/api-keys"


def client_of(
    name: str, *, api_key: str | None, base_url: str | None, region: Region, options: ConnectionOptions
) -> Client:
    """Return the client of a component.

    Args:
        api_key: A key, or a temporary token of `/v3/token`. The environment's key goes to hosts of assemblyai.com only;
            a server of your own gets a given one.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """
    check_choice("region", region, get_args(Region))
    if region and base_url is not None:
        raise ConfigurationError(f"give region or base_url, got both: {region!r} and {keys.shown_url(base_url)!r}")
    url = f"https://streaming.{region}.assemblyai.com" if region else "https://streaming.assemblyai.com"
    if base_url is not None:
        url = keys.checked_url(base_url, "https://assemblyai.example.com")
    is_theirs = keys.is_server_of(url, "assemblyai.com")
    remedy = ", or give base_url for a server of your own"
    key = keys.find_key(api_key, (KEY_VARIABLE,) if is_theirs else (), remedy=remedy)
    return Client(name, url, headers=VERSION | ({"Authorization": key} if key else {}), options=options)


def failures_of(client: Client, *, asked: str, said: Iterable[str] = ()) -> Failures:
    """Return the errors of a component.

    Args:
        asked: What was asked for, what there is and what to do, if the server refuses it (400).
        said: Texts that no error may quote.
    """
    words = tuple(said)
    remedies = {400: asked, 401: KEY_REMEDY}
    redact = Redaction(client.secrets, lambda: words)
    return Failures(provider=PROVIDER, redact=redact, statuses=STATUSES, remedies=remedies)
