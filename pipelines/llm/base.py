"""LLM, its request and the events of its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field

from vivavoce.pipelines.core.boundary import Expected
from vivavoce.pipelines.core.characters import make_whole
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import Tool, ToolCall, ToolChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMCapabilities:
    """The abilities of a model.

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
        context: The whole conversation. A remote connection sends only the items that it has not sent yet.
        instructions: The agent's standing instructions.
        extra_instructions: Instructions for this generation only.
        tools: The tools that the model may call.
        turn_id: The turn that it answers, for records.
    """

    context: ChatContext
    instructions: str = field(default="", repr=False)
    extra_instructions: str = field(default="", repr=False)
    tools: tuple[Tool[..., object], ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    turn_id: str = ""

    def __post_init__(self) -> None:
        make_whole(self, "instructions", "extra_instructions")

    def texts(self) -> Iterator[str]:
        """Yield all texts of the conversation in it: an error must not quote them."""
        yield self.instructions
        yield self.extra_instructions
        for item in self.context:
            if isinstance(item, ChatMessage):
                yield item.content
            elif isinstance(item, FunctionCall):
                yield item.arguments
                yield item.extra
            elif isinstance(item, FunctionCallOutput):
                yield item.output


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text.

    Args:
        item_id: A realtime model's name for the item that the text belongs to; empty elsewhere.
    """

    text: str = field(repr=False)
    item_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of a request.

    Args:
        cached_tokens: The part of `input_tokens` that the provider had kept.
        cache_write_tokens: The part of `input_tokens` that the provider keeps from this request on; some charge more
            for it.
        input_audio_tokens, output_audio_tokens, cached_audio_tokens: The parts of the others that are audio.
        made_by: Provider and model, such as `openai/gpt-4o`, where another one than the pipeline's was asked: a member
            of a fallback.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    cached_audio_tokens: int = 0
    made_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Done:
    """The step is over; `reason` is the provider's own word for the cause (`stop`, `length`, `tool_calls` …)."""

    reason: str = "stop"


LLMEvent = TextDelta | ToolCall | Usage | Done

LLM_EVENTS = Expected(TextDelta, ToolCall, Usage, Done, text=str, name=str, arguments=str, call_id=str)
"""The items that `LLM.generate()` may yield."""


class LLM(Component, ABC):
    """A language model, or a substitute for one."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """Read before the first request."""
        return LLMCapabilities()

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step: text as it comes, whole tool calls, usage, and `Done` last. Closing it cancels the request.

        A call's `extra` is in each later request with that call, also of another model, which ignores it.

        Raises:
            ProviderError: While iterating. A retryable one that comes before any text or call is tried again. Any other
                exception, or an item of another kind, fails the turn like a ProviderError that is not retryable; the
                call goes on.
        """
