"""Keys and addresses of servers, as arguments and as the environment's variables give them."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from vivavoce.pipelines.core.errors import ConfigurationError


def find_key(api_key: str | None, variables: tuple[str, ...], *, remedy: str = "") -> str:
    """Return the key to send: the given one, else that of the first variable that is set.

    Args:
        variables: All spellings in use, in order; none for a server that needs no key: then an empty key is fine.
        remedy: What else to do without a key, such as `", or give base_url for a server without keys"`.
    Raises:
        ConfigurationError: There is no key, or a header cannot carry it.
    """
    given = (api_key or "", *(os.environ.get(name, "") for name in variables))
    key = next((text.strip() for text in given if text.strip()), "")
    if not key and variables:
        raise ConfigurationError(f"needed an API key, got none; set {' or '.join(variables)} or give api_key{remedy}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError("the API key must be printable ASCII without spaces, got other characters; check it")
    return key


def checked_url(base_url: str, example: str) -> str:
    """Return the address of a server.

    Raises:
        ConfigurationError: It is not a URL of a server; the text shows `example`.
    """
    try:
        parts = urlsplit(base_url)
        is_fine = parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ConfigurationError(f"base_url must be a URL such as {example!r}, got {shown_url(base_url)!r}")
    return base_url


def is_server_of(base_url: str, domain: str) -> bool:
    """Whether the address is of that domain, such as `"deepgram.com"`, or of a part of it."""
    return f".{urlsplit(base_url).hostname}".endswith(f".{domain}")


def shown_url(base_url: str) -> str:
    """Return the URL without parts that may be secret: a password before the host, a query."""
    scheme, separator, rest = base_url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2].partition('?')[0]}"
