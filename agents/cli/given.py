"""The LiveKit server in the command line and the environment."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.cli.demo.place import Place


def no_server() -> ConfigurationError:
    """Return the error for a command that needs a server and got none."""
    return ConfigurationError(
        "needed a LiveKit server: give --url, or set LIVEKIT_URL. Without one, `vivavoce dev FILE` brings a room of "
        "its own, and `vivavoce room` runs one on this machine and prints its URL, key and secret"
    )


def given_server(url: str, api_key: str | None, api_secret: str | None) -> Place:
    """Return the server.

    Raises:
        ConfigurationError: The URL is malformed, or key or secret are missing.
    """
    from vivavoce.agents.cli.demo.place import Place
    from vivavoce.agents.worker.options import websocket_url

    checked = websocket_url(url)
    if not api_key or not api_secret:
        missing = "an API key" if not api_key else "an API secret"
        raise ConfigurationError(
            f"the LiveKit server {url!r} needs {missing}: give --api-key and --api-secret, "
            "or set LIVEKIT_API_KEY and LIVEKIT_API_SECRET"
        )
    return Place(url=checked, api_key=api_key, api_secret=api_secret)


def is_here(url: str) -> bool:
    """Return whether `url` is that of a server on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # another name, or no URL
        return False
