"""The responses API, sans-I/O: the request's body, and stream events to our events.

The server keeps nothing, so its reasoning goes back with the calls that it led to, until the user speaks next: a model
needs it for the outputs. A server that cannot read it (the key is of another organisation) refuses requests of this
turn, and of no later one. Reasoning and calls have no ids: with ids the server checks which item follows which.

Source: https://platform.openai.com/docs/api-reference/responses and /responses-streaming; /docs/guides/reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.call_extra import unpack_extra
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCall
from vivavoce.pipelines.llm.tools import Tool, ToolChoice
from vivavoce.pipelines.llm.transcript import Calls, Transcript, Words, transcript
from vivavoce.pipelines.net.failures import Failures
from vivavoce.plugins.openai.options import ImageDetail
from vivavoce.plugins.openai.wire import (
    CallSlot,
    Reader,
    RequestDefaults,
    arguments_of,
    data_url,
    drop_nones,
    number_of,
    protocol_error,
    text_of,
)


def build_events() -> None:
    """Have the SDK build its classes of stream events: its first answer would hold the event loop for half a second."""
    from openai.types.responses import ResponseStreamEvent

    union, *_ = get_args(ResponseStreamEvent)
    for event in get_args(union):
        event.model_rebuild()


def responses_body(request: GenerateRequest, defaults: RequestDefaults) -> dict[str, Any]:
    """Return the arguments of `client.responses.create()`. Nothing is stored at the server."""
    options = defaults.options
    script = transcript(request, is_strict=not defaults.is_openai)
    body = drop_nones(
        model=defaults.model,
        instructions=script.instructions or None,
        input=_input(script, options.image_detail, _reasoning(request, defaults.maker)),
        stream=True,
        store=False,
        temperature=options.temperature,
        max_output_tokens=options.max_output_tokens,
    )
    if defaults.reasoning_effort is not None:
        body["reasoning"] = {"effort": defaults.reasoning_effort}
        if defaults.is_openai and defaults.reasoning_effort != "none":  # a model that does not reason refuses it
            body["include"] = ["reasoning.encrypted_content"]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body |= drop_nones(tool_choice=_choice(request.tool_choice), parallel_tool_calls=options.parallel_tool_calls)
    return body


class ResponsesReader(Reader):
    """Reads `ResponseStreamEvent`s.

    Args:
        failures: Makes the errors.
    """

    def __init__(self, request: GenerateRequest, maker: str, failures: Failures) -> None:
        super().__init__(request, maker)
        self._failures = failures
        self._by_index: dict[int, CallSlot] = {}
        self._reasoning: list[dict[str, Any]] = []
        """The reasoning since the last call."""

    def feed(self, event: object) -> list[LLMEvent]:
        """Take the next event; kinds without a use here are ignored."""
        self.has_events = True
        match getattr(event, "type", None):
            case "response.output_text.delta":
                return self._text(event)
            case "response.refusal.delta":
                self._is_refused = True
                return self._text(event)
            case "response.output_item.added" | "response.output_item.done" as kind:
                self._item(event, is_done=kind == "response.output_item.done")
            case "response.function_call_arguments.delta":
                self._slot(event).arguments += arguments_of(getattr(event, "delta", None))
            case "response.completed" | "response.incomplete":
                self._end(getattr(event, "response", None))
            case "response.failed":
                raise self._failure(getattr(getattr(event, "response", None), "error", None))
            case "error":
                raise self._failure(event)
            case str():
                pass
            case _:
                raise protocol_error("an event with a type", type(event).__name__)
        return []

    def _text(self, event: object) -> list[LLMEvent]:
        text = text_of(getattr(event, "delta", None), "delta")
        return [TextDelta(text)] if text else []

    def _item(self, event: object, *, is_done: bool) -> None:
        item = getattr(event, "item", None)
        kind, encrypted = getattr(item, "type", None), getattr(item, "encrypted_content", None)
        if kind == "reasoning" and is_done and isinstance(encrypted, str):
            self._reasoning.append({"type": "reasoning", "summary": [], "encrypted_content": encrypted})
        if kind != "function_call":
            return
        slot = self._slot(event)
        slot.id = text_of(getattr(item, "call_id", None), "call_id") or slot.id
        slot.name = text_of(getattr(item, "name", None), "a function's name") or slot.name
        slot.arguments = arguments_of(getattr(item, "arguments", None)) or slot.arguments

    def _slot(self, event: object) -> CallSlot:
        index = getattr(event, "output_index", None)
        if not isinstance(index, int):
            raise protocol_error("output_index as a number", type(index).__name__)
        slot = self._by_index.get(index)
        if slot is None:
            slot = self._by_index[index] = CallSlot(extra={"reasoning": self._reasoning} if self._reasoning else {})
            self._reasoning = []
            self._slots.append(slot)
        return slot

    def _end(self, response: object) -> None:
        status = text_of(getattr(response, "status", None), "status") or "completed"
        self._is_cut = status == "incomplete"
        details = getattr(response, "incomplete_details", None)
        self._reason = text_of(getattr(details, "reason", None), "reason") or status
        self._is_refused |= self._reason == "content_filter"
        if (usage := getattr(response, "usage", None)) is not None:
            self._usage = Usage(
                input_tokens=number_of(usage, "input_tokens"),
                output_tokens=number_of(usage, "output_tokens"),
                cached_tokens=number_of(usage, "input_tokens_details", "cached_tokens"),
            )

    def _failure(self, error: object) -> ProviderError:
        return self._failures.in_answer(getattr(error, "code", None), getattr(error, "message", None))


def _reasoning(request: GenerateRequest, maker: str) -> dict[str, list[dict[str, Any]]]:
    """Return the reasoning to give back, by the id of the call behind it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for item in request.context:
        if isinstance(item, ChatMessage) and item.role == "user":
            found.clear()
        elif isinstance(item, FunctionCall) and (own := unpack_extra(item.extra, maker).get("reasoning")):
            found[item.id] = own
    return found


def _input(
    script: Transcript, detail: ImageDetail, reasoning: Mapping[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for part in script.parts:
        if isinstance(part, Calls):
            items.extend(_calls(part, reasoning))
        else:
            items.append({"type": "message", "role": part.role, "content": _content(part, detail)})
    return items


def _calls(part: Calls, reasoning: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for call, _ in part.pairs:
        calls += reasoning.get(call.id, ())
        calls.append({"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments})
    outputs = [
        {"type": "function_call_output", "call_id": call.call_id, "output": output.output}
        for call, output in part.pairs
    ]
    return calls + outputs


def _content(words: Words, detail: ImageDetail) -> str | list[dict[str, Any]]:
    if words.role != "user" or not words.images:  # the API takes pictures from users only
        return words.text
    texts = [{"type": "input_text", "text": words.text}] if words.text.strip() else []
    return [
        *texts,
        *({"type": "input_image", "image_url": data_url(image), "detail": detail} for image in words.images),
    ]


def _tool(tool: Tool[..., object]) -> dict[str, Any]:
    """Not strict: strict schemas have no optional arguments, and this API is strict by default."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters_schema(),
        "strict": False,
    }


def _choice(choice: ToolChoice) -> str | dict[str, Any] | None:
    if choice.mode == "auto":
        return None
    return {"type": "function", "name": choice.name} if choice.mode == "named" else choice.mode
