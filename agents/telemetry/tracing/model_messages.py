"""The request to a model and its answer, as the JSON of OpenTelemetry's GenAI conventions.

The schemas are those of `gen_ai.input.messages`, `gen_ai.output.messages` and `gen_ai.system_instructions`. Pictures
are named and not sent, because of their size.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from vivavoce.pipelines.core.characters import whole
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_items import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall

Part = dict[str, Any]

MOST_BRACKETS = 200
"""Most brackets in arguments that are sent as JSON; those with more are sent as text, since reading JSON recurs."""


MOST_CHARACTERS = 32_000
"""Most characters of a step's messages: each request holds the whole conversation, and batches of spans are limited."""


def asked(request: GenerateRequest) -> dict[str, str | int]:
    """Return the attributes of a request; only where content is captured.

    A long conversation is cut to its newest messages, with the number of older ones that are left out.
    """
    kept: list[str] = []
    room, left_out = MOST_CHARACTERS, 0
    for item in reversed(request.context.items):
        if room > 0 and (message := _message(item)) is not None:
            kept.append(_json(message))
            room -= len(kept[-1])
        elif room <= 0:
            left_out += isinstance(item, ChatMessage | FunctionCall | FunctionCallOutput)
    found: dict[str, str | int] = {"gen_ai.input.messages": f"[{', '.join(reversed(kept))}]"}
    if left_out:
        found["vivavoce.llm.messages_left_out"] = left_out
    instructions = [_text(text) for text in (request.instructions, request.extra_instructions) if text]
    if instructions:
        found["gen_ai.system_instructions"] = _json(instructions)
    return found


def answered(text: str, calls: Sequence[ToolCall], reason: str) -> dict[str, str]:
    """Return the attribute of a model's text and calls; none if there are neither."""
    parts = [_text(text)] if text else []
    parts += [_call(call.call_id, call.name, call.arguments) for call in calls]
    if not parts:
        return {}
    message = {"role": "assistant", "parts": parts, "finish_reason": reason or "error"}  # it did not come to its end
    return {"gen_ai.output.messages": _json([message])}


def _message(item: ChatItem) -> Part | None:
    if isinstance(item, ChatMessage):
        parts = [_text(item.content)] if item.content else []
        parts += [{"type": "image", "mime_type": image.media_type} for image in item.images]
        return {"role": item.role, "parts": parts}
    if isinstance(item, FunctionCall):
        return {"role": "assistant", "parts": [_call(item.call_id, item.name, item.arguments)]}
    if isinstance(item, FunctionCallOutput):
        part = {"type": "tool_call_response", "id": item.call_id, "response": item.output}
        return {"role": "tool", "parts": [part]}
    return None  # an item of the session's own, which no model is sent


def _text(content: str) -> Part:
    return {"type": "text", "content": content}


def _call(call_id: str, name: str, arguments: str) -> Part:
    parsed: object = arguments  # as the model wrote it
    if arguments.count("[") + arguments.count("{") <= MOST_BRACKETS:
        with suppress(ValueError, RecursionError):
            parsed = json.loads(arguments or "{}", parse_constant=_refuse)
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": parsed}


def _refuse(constant: str) -> None:
    raise ValueError(f"JSON has no {constant}")


def _json(value: object) -> str:
    return whole(json.dumps(value, ensure_ascii=False))
