"""json_answer: one request to a model that is to answer with a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from vivavoce.pipelines.llm.base import LLM, GenerateRequest, TextDelta

MAX_ANSWER = 20_000
"""Characters of an answer that are read; more are not waited for."""


async def text_answer(llm: LLM, request: GenerateRequest) -> str:
    """Return the text of the answer, of which at most about `MAX_ANSWER` characters are read.

    Raises:
        ProviderError: The model failed.
    """
    text = ""
    async with aclosing(llm.generate(request)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                text += event.text
            if len(text) > MAX_ANSWER:
                break
    return text


def first_object(text: str, accepts: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """Return the first JSON object in `text` that is accepted; None if there is none.

    Models wrap JSON in words or fences, and break lines in it, whatever their instructions.
    """
    decoder = json.JSONDecoder(strict=False)
    for brace in re.finditer(r"\{", text):
        try:
            data, _ = decoder.raw_decode(text, brace.start())
        except ValueError:
            continue
        if accepts(data):
            assert isinstance(data, dict)
            return data
    return None


async def json_answer(
    llm: LLM, request: GenerateRequest, accepts: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """Return the first object of the model's answer that is accepted; None if there is none.

    Raises:
        ProviderError: The model failed.
    """
    return first_object(await text_answer(llm, request), accepts)
