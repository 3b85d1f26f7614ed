"""LLMSummariser: a language model that summarises a conversation."""

from __future__ import annotations

from contextlib import aclosing

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.llm.base import LLM, LLM_EVENTS, GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, ChatMessage, FunctionCall, FunctionCallOutput

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


def _line(item: ChatItem) -> str:
    if isinstance(item, ChatMessage):
        who = item.speaker or item.role
        return f"{who}: {item.content}{' [interrupted]' if item.interrupted else ''}" if item.content.strip() else ""
    if isinstance(item, FunctionCall):
        return f"tool {item.name} called with {item.arguments}"
    if isinstance(item, FunctionCallOutput):
        return f"tool {item.name} {'failed' if item.is_error else 'returned'}: {item.output}"
    return ""
