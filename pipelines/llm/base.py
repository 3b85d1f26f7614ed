"""LLM, the request it gets and what it streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from vivavoce.pipelines.core.boundary import Expected
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import Tool, ToolCall, ToolChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMCapabilities:
    """What a model takes.

    Args:
        supports_tools: Whether it can call tools.
        supports_images: Whether messages may carry pictures.
    """

    supports_tools: bool = True
    supports_images: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One model step.

    Args:
        context: The whole conversation. A remote connection sends the items whose ids it has not sent yet.
        instructions: The agent's standing instructions.
        extra_instructions: Instructions for this generation only.
        tools: What the model may call.
        turn_id: The turn that it answers, for records.
    """

    context: ChatContext
    instructions: str = field(default="", repr=False)
    extra_instructions: str = field(default="", repr=False)
    tools: tuple[Tool[..., object], ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text.

    Args:
        item_id: What a realtime model calls the item that it is part of; empty elsewhere.
    """

    text: str = field(repr=False)
    item_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a request took."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The step is over; `reason` is the provider's own word for why (`stop`, `length`, `tool_calls` …)."""

    reason: str = "stop"


LLMEvent = TextDelta | ToolCall | Usage | Done

LLM_EVENTS = Expected(TextDelta, ToolCall, Usage, Done, text=str, name=str, arguments=str, call_id=str)
"""What `LLM.generate()` may yield."""


class LLM(Component, ABC):
    """A language model, or what stands in for one."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """Read before the first request."""
        return LLMCapabilities()

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step: text as it comes, whole tool calls, usage, and `Done` last. Closing it cancels the request.

        Raises:
            ProviderError: While iterating. A retryable one that comes before any text or call is tried again. Another
                exception, or an item of another kind, fails the turn as a ProviderError would that is not retryable;
                the call goes on.
        """
