"""RealtimeOptions: voice, language, the server's turn detection, limits."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.checks import check_number


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeOptions:
    """Settings of `google.RealtimeModel` that seldom change. What is None is left to the server.

    What each option does: docs/options.md.
    """

    voice: str = ""
    """Such as `"Puck"`; empty takes the model's own."""
    language: str = ""
    """BCP-47, such as `"en-US"`."""
    temperature: float | None = None
    """How freely the model chooses its words, as its API has it."""
    max_output_tokens: int | None = None
    """The most of one answer."""
    silence: float | None = None
    """Seconds that end the user's turn, where the server decides."""
    compresses_context: bool = True
    """Whether the server drops the oldest of a long conversation, rather than ending it."""
    generates_text: bool = False
    """Whether the model can answer with text; those with native audio cannot."""
    extra_config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the SDK's `LiveConnectConfig` that have no option here; they win over those that have."""
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent as the connection is made."""
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)
    """Of a server whose certificate this machine does not know."""
    connect_timeout: float = 10.0
    """Seconds until the server has taken the settings."""

    def __post_init__(self) -> None:
        check_number("silence", self.silence, above=0, unit="s", or_none=True)
        check_number("connect_timeout", self.connect_timeout, above=0, unit="s")
