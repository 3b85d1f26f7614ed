"""ConnectionOptions: the limits of a provider's connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError


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
