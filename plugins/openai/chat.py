"""The chat completions API, sans-I/O: the request's body, and chunks to our events.

Two fields of an answer with tool calls go back with it: `extra_content` of a call (Gemini's thought signatures) and
`reasoning_content` of its message (DeepSeek refuses one without it, however old).

Source: https://platform.openai.com/docs/api-reference/chat, and the deviations of Ollama, vLLM, llama.cpp, Gemini and
DeepSeek (https://api-docs.deepseek.com/guides/thinking_mode).
"""

from __future__ import annotations

from typing import Any

from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.call_extra import unpack_extra
from vivavoce.pipelines.llm.tools import Tool, ToolChoice
from vivavoce.pipelines.llm.transcript import Calls, Part, Transcript, Words, transcript
from vivavoce.plugins.openai.options import ImageDetail
from vivavoce.plugins.openai.wire import (
    PROVIDER,
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

CUT_REASONS = frozenset({"length", "content_filter"})
"""Reasons why an answer may stop in the middle of a tool call."""


def chat_body(request: GenerateRequest, defaults: RequestDefaults) -> dict[str, Any]:
    """Return the arguments of `client.chat.completions.create()`."""
    options = defaults.options
    body = drop_nones(
        model=defaults.model,
        messages=_messages(transcript(request, is_strict=not defaults.is_openai), defaults),
        stream=True,
        stream_options={"include_usage": True},
        temperature=options.temperature,
        reasoning_effort=defaults.reasoning_effort,
    )
    if options.max_output_tokens is not None:
        body["max_completion_tokens" if defaults.is_openai else "max_tokens"] = options.max_output_tokens
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body |= drop_nones(tool_choice=_choice(request.tool_choice), parallel_tool_calls=options.parallel_tool_calls)
    return body


class ChatReader(Reader):
    """Reads `ChatCompletionChunk`s."""

    def __init__(self, request: GenerateRequest, maker: str = PROVIDER) -> None:
        super().__init__(request, maker)
        self._by_index: dict[int, CallSlot] = {}
        self._reasoning: list[str] = []

    def feed(self, event: object) -> list[LLMEvent]:
        """Take the next chunk."""
        self.has_events = True
        if not hasattr(event, "choices"):
            raise protocol_error("a chunk of a chat completion", type(event).__name__)
        if (usage := getattr(event, "usage", None)) is not None:  # some servers send it in each chunk: the last counts
            self._usage = Usage(
                input_tokens=number_of(usage, "prompt_tokens"),
                output_tokens=number_of(usage, "completion_tokens"),
                cached_tokens=number_of(usage, "prompt_tokens_details", "cached_tokens"),
            )
        choices = event.choices or []
        if not isinstance(choices, list):
            raise protocol_error("choices as a list", type(choices).__name__)
        return self._choice(choices[0]) if choices else []

    def finish(self) -> list[LLMEvent]:
        """Return the rest; the reasoning goes with the first call."""
        if self._reasoning and self._slots:
            self._slots[0].extra["reasoning_content"] = "".join(self._reasoning)
        return super().finish()

    def _choice(self, choice: object) -> list[LLMEvent]:
        if reason := text_of(getattr(choice, "finish_reason", None), "finish_reason"):
            self._reason = reason
            self._is_cut = reason in CUT_REASONS
        delta = getattr(choice, "delta", None)
        content = text_of(getattr(delta, "content", None), "content")
        refusal = text_of(getattr(delta, "refusal", None), "refusal")
        if isinstance(reasoning := getattr(delta, "reasoning_content", None), str):
            self._reasoning.append(reasoning)
        self._is_refused |= bool(refusal)
        calls = getattr(delta, "tool_calls", None) or []
        if not isinstance(calls, list):
            raise protocol_error("tool_calls as a list", type(calls).__name__)
        for call in calls:
            self._fragment(call)
        return [TextDelta(text) for text in (content, refusal) if text]

    def _fragment(self, call: object) -> None:
        function = getattr(call, "function", None)
        call_id = text_of(getattr(call, "id", None), "a call's id")
        name = text_of(getattr(function, "name", None), "a function's name")
        slot = self._slot(getattr(call, "index", None), call_id, name)
        slot.id = slot.id or call_id
        slot.name = slot.name or name
        slot.arguments += arguments_of(getattr(function, "arguments", None))
        if isinstance(extra := getattr(call, "extra_content", None), dict):
            slot.extra["extra_content"] = extra

    def _slot(self, index: object, call_id: str, name: str) -> CallSlot:
        """Return the call that a fragment belongs to. Some servers send no index, or 0 for each call of several."""
        key = index if isinstance(index, int) else -1
        slot = self._by_index.get(key)
        is_another = bool(name) and slot is not None and (call_id != slot.id if call_id else key == -1)
        if slot is None or is_another:
            slot = self._by_index[key] = CallSlot()
            self._slots.append(slot)
        return slot


def _messages(script: Transcript, defaults: RequestDefaults) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if script.instructions.strip():
        messages.append({"role": "system", "content": script.instructions})
    previous: Part | None = None
    for part in script.parts:
        if isinstance(part, Words):
            messages.append({"role": part.role, "content": _content(part, defaults.options.image_detail)})
        elif isinstance(previous, Words) and previous.role == "assistant":  # one message of the model
            messages[-1:] = _calls(part, previous.text, defaults.maker)
        else:
            messages.extend(_calls(part, None, defaults.maker))
        previous = part
    return messages


def _calls(part: Calls, text: str | None, maker: str) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    message: dict[str, Any] = {"role": "assistant", "content": text, "tool_calls": calls}
    for call, _ in part.pairs:
        extra = unpack_extra(call.extra, maker)
        function = {"name": call.name, "arguments": call.arguments}
        of_call = drop_nones(extra_content=extra.get("extra_content"))
        calls.append({"id": call.call_id, "type": "function", "function": function, **of_call})
        message |= drop_nones(reasoning_content=extra.get("reasoning_content"))
    outputs = [{"role": "tool", "tool_call_id": call.call_id, "content": output.output} for call, output in part.pairs]
    return [message, *outputs]


def _content(words: Words, detail: ImageDetail) -> str | list[dict[str, Any]]:
    if words.role != "user" or not words.images:  # the API takes pictures from users only
        return words.text
    texts = [{"type": "text", "text": words.text}] if words.text.strip() else []
    return [
        *texts,
        *({"type": "image_url", "image_url": {"url": data_url(image), "detail": detail}} for image in words.images),
    ]


def _tool(tool: Tool[..., object]) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters_schema()}
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> str | dict[str, Any] | None:
    if choice.mode == "auto":
        return None
    return {"type": "function", "function": {"name": choice.name}} if choice.mode == "named" else choice.mode
