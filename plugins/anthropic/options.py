"""LLMOptions: the settings of a request beyond the model, and the limits of connecting and reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions

Thinking = Literal["disabled", "adaptive", "between_tools"]
CacheTime = Literal["5m", "1h"]

MIN_BUDGET = 1024
"""Tokens of the smallest budget for thinking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMOptions(ConnectionOptions):
    """Settings of `anthropic.LLM` that seldom change. The server decides a setting that is None.

    Each option: docs/options.md.
    """

    max_output_tokens: int = 2048
    """Tokens of one answer at most, thinking included; the API has no default."""
    temperature: float | None = None
    """0 … 1; models from Claude Opus 4.7 on refuse it."""
    parallel_tool_calls: bool | None = None
    """Whether one answer may call several tools."""
    caching: CacheTime | None = "5m"
    """How long the server keeps what it has read: tools, instructions and the conversation so far, which the next
    request reads for a tenth of the price and sooner. Keeping costs a quarter more (`"1h"`: twice as much). None: it
    keeps nothing."""
    thinking: Thinking | int | None = None
    """Whether the model thinks before it speaks; a number is the budget in tokens of models up to Claude Opus 4.5. The
    default model gets `"disabled"` unless something is given, since a caller waits. Thoughts go back to the model with
    the tool calls of the turn, and are never spoken."""
    effort: str | None = None
    """How much the model puts into an answer: `"low"`, `"medium"`, `"high"`, `"xhigh"`, `"max"`."""
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the request's JSON without an option here, for example `service_tier`; they override the options."""

    def __post_init__(self) -> None:
        check_number("max_output_tokens", self.max_output_tokens, at_least=1, unit="tokens")
        if self.temperature is not None and not 0 <= self.temperature <= 1:
            raise ConfigurationError(f"need 0 <= temperature <= 1, got {self.temperature!r}")
        if self.caching not in (None, *get_args(CacheTime)):
            raise ConfigurationError(f"caching must be one of {get_args(CacheTime)} or None, got {self.caching!r}")
        if isinstance(self.thinking, int):
            if not MIN_BUDGET <= self.thinking < self.max_output_tokens:
                limits = f"{MIN_BUDGET} <= thinking < max_output_tokens ({self.max_output_tokens})"
                raise ConfigurationError(f"a budget of thinking needs {limits}, got {self.thinking!r} tokens")
            if self.temperature not in (None, 1):
                raise ConfigurationError(f"a budget of thinking needs temperature=None, got {self.temperature!r}")
        elif self.thinking not in (None, *get_args(Thinking)):
            needed = f"one of {get_args(Thinking)}, a number of tokens or None"
            raise ConfigurationError(f"thinking must be {needed}, got {self.thinking!r}")
        ConnectionOptions.__post_init__(self)
