"""LLMOptions, Vertex, RealtimeOptions: settings of the components, and the access by Google Cloud."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions

Thinking = Literal["short", "minimal", "low", "medium", "high", "xhigh"]

PLAIN_NAME = re.compile(r"[a-zA-Z0-9.:-]*")
"""A project or a location, which become a part of the server's address."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMOptions(ConnectionOptions):
    """Settings of `google.LLM` that seldom change. The server decides a setting that is None.

    Each option: docs/options.md.
    """

    thinking: Thinking | int | None = "short"
    """How much the model thinks before it speaks. `"short"`: as little as the model can, since a caller waits. A level
    (`"minimal"`, `"low"`, `"medium"`, `"high"`, `"xhigh"`) is for models from Gemini 3 on, a number of tokens (0: none,
    -1: as much as it likes) for those before. Thoughts are never spoken."""
    max_output_tokens: int | None = None
    """Tokens of one answer at most. Thinking counts too, so that a low limit may end an answer before its first
    word."""
    temperature: float | None = None
    """0 … 2; Gemini 4 ignores it."""
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the request's JSON without an option here, for example `safetySettings`; they override the options.
    Those inside of `generationConfig` are merged."""

    def __post_init__(self) -> None:
        if isinstance(self.thinking, bool) or not (
            isinstance(self.thinking, int) or self.thinking in (None, *get_args(Thinking))
        ):
            needed = f"one of {get_args(Thinking)}, a number of tokens or None"
            raise ConfigurationError(f"thinking must be {needed}, got {self.thinking!r}")
        if isinstance(self.thinking, int):
            check_number("thinking", self.thinking, at_least=-1, unit="tokens")
        check_number("max_output_tokens", self.max_output_tokens, at_least=1, unit="tokens", or_none=True)
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ConfigurationError(f"need 0 <= temperature <= 2, got {self.temperature!r}")
        ConnectionOptions.__post_init__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """Access to the models by Google Cloud (Vertex AI, now "Gemini Enterprise Agent Platform").

    Args:
        project: Else the environment's `GOOGLE_CLOUD_PROJECT`, else the one of the credentials.
        location: Such as `"europe-west4"`, `"eu"` or `"global"`; else the environment's `GOOGLE_CLOUD_LOCATION`, else
            `"global"`.
        credentials: Of the package google-auth; else the "application default credentials" of the machine:
            `GOOGLE_APPLICATION_CREDENTIALS`, `gcloud auth application-default login`, or the machine's own account.
    """

    project: str = ""
    location: str = ""
    credentials: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, text in (("project", self.project), ("location", self.location)):
            if not isinstance(text, str) or not PLAIN_NAME.fullmatch(text):
                raise ConfigurationError(f"{name} must be a name of letters, digits, '-', '.' and ':', got {text!r}")
        if self.credentials is not None and not hasattr(self.credentials, "refresh"):
            raise ConfigurationError(
                f"credentials must be google-auth credentials, got {type(self.credentials).__name__}; for the file of "
                "a service account: google.oauth2.service_account.Credentials.from_service_account_file(path, "
                "scopes=['https://www.googleapis.com/auth/cloud-platform'])"
            )
