"""LLMOptions: the settings of a request beyond the model, and the limits of connecting and reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vivavoce.pipelines.net.options import ConnectionOptions

Api = Literal["chat", "responses"]
Dialect = Literal["auto", "openai", "compatible"]
ImageDetail = Literal["auto", "low", "high"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMOptions(ConnectionOptions):
    """Settings of `openai.LLM` that seldom change. The server decides a setting that is None.

    Each option: docs/options.md.
    """

    temperature: float | None = None
    """0 … 2; reasoning models refuse it."""
    max_output_tokens: int | None = None
    """Tokens of one answer at most, reasoning included."""
    parallel_tool_calls: bool | None = None
    """Whether one answer may call several tools."""
    reasoning_effort: str | None = None
    """Such as `"none"`, `"low"`, `"medium"`, `"high"`. The default model, and those of DeepSeek, get `"none"` unless
    something is given; a known server gets `"none"` in its own words. With `api="responses"`, OpenAI gets the encrypted
    reasoning back with the tool calls of the turn."""
    image_detail: ImageDetail = "auto"
    """How closely the model looks at pictures."""
    dialect: Dialect = "auto"
    """`openai`: system messages wherever they belong, `max_completion_tokens`. `compatible`: one system message, first;
    all other notes for the model stand in square brackets in the user's role, which then alternates with
    the assistant's; `max_tokens`. `auto`: `openai` for OpenAI and Azure, `compatible` for any other server, with what
    is known of it."""
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the request's JSON without an option here, for example `service_tier`; they override the options."""

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError(f"need 0 <= temperature <= 2, got {self.temperature!r}")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise ValueError(f"need max_output_tokens >= 1, got {self.max_output_tokens!r}")
        if self.dialect not in get_args(Dialect):
            raise ValueError(f"dialect must be one of {get_args(Dialect)}, got {self.dialect!r}")
        if self.image_detail not in get_args(ImageDetail):
            raise ValueError(f"image_detail must be one of {get_args(ImageDetail)}, got {self.image_detail!r}")
        ConnectionOptions.__post_init__(self)
