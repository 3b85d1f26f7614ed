"""RealtimeOptions: voice, language, the server's turn detection, limits."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.checks import check_number


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeOptions:
    """Settings of `google.RealtimeModel` that seldom change. The server decides a setting that is None.

    Each option: docs/options.md.
    """

    voice: str = ""
    """Such as `"Puck"`; empty: the model's own."""
    language: str = ""
    """BCP-47, such as `"en-US"`."""
    temperature: float | None = None
    """How freely the model chooses its words, by the API's scale."""
    max_output_tokens: int | None = None
    """The most tokens of one answer."""
    silence: float | None = None
    """Seconds of silence that end the user's turn, if the server decides."""
    compresses_context: bool = True
    """Whether the server drops the oldest part of a long conversation, rather than ending it."""
    generates_text: bool = False
    """Whether the model can answer with text; models with native audio cannot."""
    extra_config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the SDK's `LiveConnectConfig` that have no option here; they replace those that have one."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """HTTP headers of the connection's request."""
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)
    """Certificates of a server that this machine does not know."""
    connect_timeout: float = 10.0
    """Seconds until the server has accepted the settings."""

    def __post_init__(self) -> None:
        check_number("silence", self.silence, above=0, unit="s", or_none=True)
        check_number("connect_timeout", self.connect_timeout, above=0, unit="s")
