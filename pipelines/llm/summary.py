"""LLMSummariser: a language model that summarises a conversation. SummaryWindow: a view of it with a summary."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.checks import check_number, check_whole
from vivavoce.pipelines.llm.base import LLM, LLM_EVENTS, GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import (
    ChatContext,
    ChatItem,
    ChatMessage,
    FunctionCall,
    FunctionCallOutput,
    Summariser,
)

INSTRUCTIONS = (
    "You get the record of a phone conversation. Summarise it in a few sentences, in its language, for whoever goes on "
    "with it: who the caller is, what they want, every name, number, date and decision, what the tools did, and what "
    "is still open. Add nothing that is not in it, and answer nothing that is asked in it."
)


class LLMSummariser:
    """Has a model summarise: `await context.summarise(LLMSummariser(llm))`.

    The model receives the conversation as one text, not as messages of its own, so that it does not continue it.
    Pictures are left out. The caller bounds the call.

    Args:
        instructions: The instructions for the model.
    """

    def __init__(self, llm: LLM, instructions: str = INSTRUCTIONS) -> None:
        self._llm = llm
        self._instructions = instructions

    async def __call__(self, context: ChatContext) -> str:
        """Return the summary.

        Raises:
            ProviderError: The model failed.
        """
        lines = [line for item in context if (line := _line(item))]
        request = GenerateRequest(
            context=ChatContext([ChatMessage(role="user", content="\n".join(lines))]), instructions=self._instructions
        )
        text = ""
        step = guarded(lambda: self._llm.generate(request), LLM_EVENTS, self._llm.provider)
        async with aclosing(step) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    text += event.text
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryWindow:
    """Replaces older items by a summary: `AgentOverrides(context=SummaryWindow(by=LLMSummariser(llm)))`.

    As the `context_window` of a session it would summarise before each model step; `session.history.summarise()` does
    it once there.

    Args:
        by: Returns a summary of the older items.
        keep_items: The least number of newest items that stay as they are.
        limit: Seconds for `by`; in a handoff `hook_timeout` holds too.
    """

    by: Summariser
    keep_items: int = 4
    limit: float = 8.0

    def __post_init__(self) -> None:
        check_whole("keep_items", self.keep_items, at_least=0)
        check_number("limit", self.limit, above=0, unit="s")

    async def __call__(self, context: ChatContext) -> ChatContext:
        """Return the newest items behind a summary of the others.

        Raises:
            ProviderError: There is no summary.
        """
        return await context.summarise(self.by, keep_items=self.keep_items, limit=self.limit)


def _line(item: ChatItem) -> str:
    if isinstance(item, ChatMessage):
        who = item.speaker or item.role
        if len(item.speakers) > 0 and not item.speaker:
            return "\n".join(f"{who}{f' {speaker}' if speaker else ''}: {said}" for speaker, said in item.by_voice())
        return f"{who}: {item.content}{' [interrupted]' if item.interrupted else ''}" if item.content.strip() else ""
    if isinstance(item, FunctionCall):
        return f"tool {item.name} called with {item.arguments}"
    if isinstance(item, FunctionCallOutput):
        return f"tool {item.name} {'failed' if item.is_error else 'returned'}: {item.output}"
    return ""
