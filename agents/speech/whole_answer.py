"""whole_answer: a model's answer whose texts have whole characters, however the model cuts them into pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from vivavoce.pipelines.core.characters import WholeText
from vivavoce.pipelines.llm.base import Done, LLMEvent, TextDelta
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.base import AudioChunk


async def whole_answer(
    source: AsyncGenerator[LLMEvent | AudioChunk, None],
) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
    """Yield a model's step; the text ends with a call, with `Done`, and at the end of an item."""
    text, item_id = WholeText(), ""
    async with aclosing(source) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                if event.item_id != item_id and (rest := text.finish()):
                    yield TextDelta(rest, item_id)
                item_id = event.item_id
                if (piece := text.push(event.text)) != event.text:
                    event = replace(event, text=piece)
            elif isinstance(event, ToolCall | Done) and (rest := text.finish()):
                yield TextDelta(rest, item_id)
            yield event
    if rest := text.finish():
        yield TextDelta(rest, item_id)
