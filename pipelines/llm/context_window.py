"""ContextWindow: the part of a conversation that a model receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_whole
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext, TokenCounter, estimate_tokens
from vivavoce.pipelines.llm.chat_units import shortened

ContextPolicy = Callable[[ChatContext], ChatContext | Awaitable[ChatContext]]
"""Returns the part of a conversation for a request. It runs before each model step on the session's loop, so it must
not block; it receives a copy. It may be async, and then has `hook_timeout`; no answer is begun ahead with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """Sends the newest items that fit both limits, all messages of the system, and the user's message that is answered.

    With `max_tokens`, long tool results are shortened before older items are left out; see `ChatContext.truncate`.

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

    def shortened(self, context: ChatContext) -> ChatContext:
        """Return `context` with long tool results shortened, if it does not fit `max_tokens`."""
        if self.max_tokens is None:
            return context
        return ChatContext(shortened(context.items, self.max_tokens, self.count_tokens))
