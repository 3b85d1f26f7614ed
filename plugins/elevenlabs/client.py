"""The connections of this plugin's components: address, key, and the errors of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net import keys
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction

PROVIDER = "elevenlabs"

KEY_VARIABLES = ("ELEVENLABS_API_KEY", "ELEVEN_API_KEY")
"""Of the vendor's SDK, and of livekit's plugin."""

Region = Literal["", "us", "eu", "in", "sg"]
"""Where the data is processed; empty: the nearest place. A key belongs to its region."""

HOSTS: Mapping[Region, str] = {
    "": "https://api.elevenlabs.io",
    "us": "https://api.us.elevenlabs.io",
    "eu": "https://api.eu.residency.elevenlabs.io",
    "in": "https://api.in.residency.elevenlabs.io",
    "sg": "https://api.sg.residency.elevenlabs.io",
}
"""Source: elevenlabs 2.78.0, `environment.py`."""

STATUSES: Mapping[int | str, int] = {
    "voice_id_does_not_exist": 404,
    "voice_not_found": 404,
    "model_not_found": 404,
    "invalid_api_key": 401,
    "auth_error": 401,
    "authentication_required": 401,
    "missing_permissions": 403,
    "subscription_required": 403,
    "unaccepted_terms": 403,
    "quota_exceeded": 402,
    "max_active_conversations": 429,
    "simultaneous contexts": 429,
    "too_many_concurrent_requests": 429,
    "rate_limited": 429,
    "commit_throttled": 429,
    "queue_overflow": 503,
    "resource_exhausted": 503,
    "system_busy": 503,
    "transcriber_error": 500,
    "internal_server_error": 500,
    "input_timeout_exceeded": 408,
    "session_time_limit_exceeded": 408,
    "insufficient_audio_activity": 408,
    "chunk_size_exceeded": 413,
}
"""Names of errors, also in the reason of a close, that mean a status. Sources: elevenlabs 2.78.0,
`realtime/connection.py`; https://elevenlabs.io/docs/api-reference/errors."""

KEY_REMEDY = (
    f"check the API key, which must be one of ElevenLabs ({KEY_VARIABLES[0]}, "
    "https://elevenlabs.io/app/settings/api-keys) and of the region"
)
PLAN_REMEDY = "check what the API key may do, and whether the plan has this and its terms are accepted"


def client_of(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    region: Region = "",
    options: ConnectionOptions | None = None,
) -> Client:
    """Return the client of a component.

    Args:
        name: The component's name for errors, such as `"elevenlabs.TTS"`.
        api_key: The environment's key goes to hosts of elevenlabs.io only; a server of your own gets a given one.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """
    check_choice("region", region, get_args(Region))
    if region and base_url is not None:
        raise ConfigurationError(f"give region or base_url, got both: {region!r} and {keys.shown_url(base_url)!r}")
    url = HOSTS[region] if base_url is None else keys.checked_url(base_url, "https://elevenlabs.example.com")
    is_theirs = keys.is_server_of(url, "elevenlabs.io")
    remedy = ", or give base_url for a server of your own"
    key = keys.find_key(api_key, KEY_VARIABLES if is_theirs else (), remedy=remedy)
    return Client(name, url, headers={"xi-api-key": key} if key else {}, options=options)


def failures_of(client: Client, *, asked: str, said: Callable[[], Iterable[str]]) -> Failures:
    """Return the errors of a component.

    Args:
        asked: What was asked for, what there is and what to do, if the server refuses it.
        said: Returns texts that no error may quote.
    """
    remedies = {**dict.fromkeys((400, 404, 422), asked), 401: KEY_REMEDY, 403: f"{PLAN_REMEDY}; {asked}"}
    return Failures(provider=PROVIDER, redact=Redaction(client.secrets, said), statuses=STATUSES, remedies=remedies)
