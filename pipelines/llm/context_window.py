"""ContextWindow: the part of a conversation that a model receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_whole
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext, TokenCounter, estimate_tokens

ContextPolicy = Callable[[ChatContext], ChatContext | Awaitable[ChatContext]]
"""Returns the part of a conversation for a request. It runs before each model step on the session's loop, so it must
not block; it receives a copy. It may be async, and then has `hook_timeout`; no answer is begun ahead with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """Sends the newest items that fit both limits, and all messages of the system; see `ChatContext.truncate`.

    Each option: docs/options.md.
    """

    max_items: int | None = None
    """The most items of a request; None: as many as `max_tokens` allows."""
    max_tokens: int | None = None
    """The most tokens of a request, as `count_tokens` counts; None: as many as `max_items` allows."""
    count_tokens: TokenCounter = estimate_tokens
    """Returns the tokens of an item; by default a rough estimate."""

    def __post_init__(self) -> None:
        if self.max_items is None and self.max_tokens is None:
            raise ConfigurationError("a ContextWindow needs max_items or max_tokens, got neither")
        for name in ("max_items", "max_tokens"):
            check_whole(name, getattr(self, name), at_least=1, or_none=True)

    def __call__(self, context: ChatContext) -> ChatContext:
        """Return the part of `context` for a request."""
        return context.truncate(max_items=self.max_items, max_tokens=self.max_tokens, count_tokens=self.count_tokens)
