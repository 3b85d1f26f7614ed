"""counted_answer: one request to a model beside the conversation, whose tokens are counted."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial

import anyio

from vivavoce.agents.speech.step_usage import CountUsage, estimate
from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.members import name_of
from vivavoce.pipelines.llm.base import LLM, LLM_EVENTS, GenerateRequest, TextDelta, Usage


async def counted_answer(llm: LLM, request: GenerateRequest, count: CountUsage) -> str:
    """Return the text of an answer; its tokens are counted, by an estimate if it is cut.

    Raises:
        ProviderError: The model failed.
    """
    text, is_counted = "", False
    step = guarded(partial(llm.generate, request), LLM_EVENTS, llm.provider)
    try:
        async with aclosing(step) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    text += event.text
                elif isinstance(event, Usage):
                    is_counted = True
                    count(event if event.made_by else replace(event, made_by=name_in_use(llm)))
    except anyio.get_cancelled_exc_class():
        if not is_counted:
            count(estimate(request, len(text.encode()), name_in_use(llm)))
        raise
    return text.strip()


def name_in_use(llm: LLM) -> str:
    """Return provider and model; of a fallback, those of the member in use."""
    return llm.model if llm.members else name_of(llm)
