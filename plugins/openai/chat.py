"""The chat completions API, sans-I/O: the request's body, and chunks to our events.

Two fields of an answer with tool calls go back with it: `extra_content` of a call (Gemini's thought signatures) and
`reasoning_content` of its message (DeepSeek refuses one without it, however old).

Source: https://platform.openai.com/docs/api-reference/chat, and the deviations of other servers: those of requests are
in `servers`, with their sources; those of answers are read from any server.
"""

from __future__ import annotations

import hashlib
from typing import Any

from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.call_extra import unpack_extra
from vivavoce.pipelines.llm.tools import Tool, ToolChoice
from vivavoce.pipelines.llm.transcript import NOTE, Calls, Part, Transcript, Words, transcript
from vivavoce.pipelines.net.failures import Failures
from vivavoce.plugins.openai.options import ImageDetail
from vivavoce.plugins.openai.thoughts import ThoughtFilter
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

REASONS = {"eos": "stop", "content_filter": "refusal"}
"""Other words for the end of an answer: of Together (types/chat/chat_completion_chunk.py), and of a server's filter."""

GO_ON = NOTE.format("Go on.")
"""The user's last message for a server that refuses the model's own there."""


def chat_body(request: GenerateRequest, defaults: RequestDefaults) -> dict[str, Any]:
    """Return the arguments of `client.chat.completions.create()`."""
    options = defaults.options
    body = drop_nones(
        model=defaults.model,
        messages=_messages(transcript(request, is_strict=not defaults.is_openai), defaults),
        stream=True,
        stream_options={"include_usage": True} if defaults.server.takes_usage_option else None,
        temperature=options.temperature,
    )
    body |= _effort(defaults)
    if options.max_output_tokens is not None:
        body[_limit_field(defaults)] = options.max_output_tokens
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body |= drop_nones(tool_choice=_choice(request.tool_choice), parallel_tool_calls=options.parallel_tool_calls)
    return body


class ChatReader(Reader):
    """Reads `ChatCompletionChunk`s."""

    def __init__(self, request: GenerateRequest, maker: str = PROVIDER, failures: Failures | None = None) -> None:
        super().__init__(request, maker)
        self._failures = failures or Failures(provider=PROVIDER)
        self._thoughts = ThoughtFilter()
        self._by_index: dict[int, CallSlot] = {}
        self._reasoning: list[str] = []

    def feed(self, event: object) -> list[LLMEvent]:
        """Take the next chunk."""
        self.has_events = True
        if not hasattr(event, "choices"):
            raise protocol_error("a chunk of a chat completion", type(event).__name__)
        own = getattr(event, "x_groq", None)
        own = own if isinstance(own, dict) else {}
        if text := own.get("error"):
            raise self._failures.in_answer(None, text)
        usage = getattr(event, "usage", None)
        if usage is None and isinstance(of_groq := own.get("usage"), dict):
            usage = of_groq
        if usage is not None:  # some servers send it in each chunk: the last counts
            self._usage = _usage(usage)
        choices = event.choices or []
        if not isinstance(choices, list):
            raise protocol_error("choices as a list", type(choices).__name__)
        return self._choice(choices[0]) if choices else []

    def finish(self) -> list[LLMEvent]:
        """Return the rest; the reasoning goes with the first call."""
        if self._reasoning and self._slots:
            self._slots[0].extra["reasoning_content"] = "".join(self._reasoning)
        rest = self._thoughts.finish()
        events = super().finish()
        return [TextDelta(rest), *events] if rest else events

    def _choice(self, choice: object) -> list[LLMEvent]:
        if reason := text_of(getattr(choice, "finish_reason", None), "finish_reason"):
            if reason == "error":  # Mistral, OpenRouter
                error = getattr(choice, "error", None) or {}
                raise self._failures.in_answer(error.get("code"), error.get("message") or "the model failed")
            self._reason = REASONS.get(reason, reason)
            self._is_cut = reason in CUT_REASONS
        delta = getattr(choice, "delta", None)
        content = self._thoughts.push(_spoken(getattr(delta, "content", None)))
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


def _effort(defaults: RequestDefaults) -> dict[str, Any]:
    """Return the fields for the effort; the SDK takes those that it does not know as `extra_body`."""
    if defaults.reasoning_effort != "none":
        return drop_nones(reasoning_effort=defaults.reasoning_effort)
    fields = dict(defaults.server.no_reasoning)
    return fields if "reasoning_effort" in fields else {"extra_body": fields}


def _limit_field(defaults: RequestDefaults) -> str:
    if defaults.options.dialect == "auto":
        return defaults.server.limit_field
    return "max_completion_tokens" if defaults.is_openai else "max_tokens"


def _usage(usage: object) -> Usage:
    """Return the tokens. xAI counts those of reasoning beside the others, DeepSeek names the cached ones itself."""
    read, written = number_of(usage, "prompt_tokens"), number_of(usage, "completion_tokens")
    thought = number_of(usage, "completion_tokens_details", "reasoning_tokens")
    is_beside = thought > 0 and number_of(usage, "total_tokens") == read + written + thought
    cached = number_of(usage, "prompt_tokens_details", "cached_tokens") or number_of(usage, "prompt_cache_hit_tokens")
    return Usage(input_tokens=read, output_tokens=written + thought * is_beside, cached_tokens=cached)


def _spoken(content: object) -> str:
    """Return the text of a delta. Mistral's may be a list, of texts and thoughts (client/models/deltamessage.py)."""
    if not isinstance(content, list):
        return text_of(content, "content")
    texts = (part for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text_of(part.get("text"), "text") for part in texts)


def _call_id(call_id: str, length: int) -> str:
    """Return an id as the server takes it: the same one each time, also for a call of another server."""
    if not length or (len(call_id) == length and call_id.isascii() and call_id.isalnum()):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _messages(script: Transcript, defaults: RequestDefaults) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if script.instructions.strip():
        messages.append({"role": "system", "content": script.instructions})
    previous: Part | None = None
    for part in script.parts:
        if isinstance(part, Words):
            messages.append({"role": part.role, "content": _content(part, defaults.options.image_detail)})
        elif isinstance(previous, Words) and previous.role == "assistant":  # one message of the model
            messages[-1:] = _calls(part, previous.text, defaults)
        else:
            messages.extend(_calls(part, None, defaults))
        previous = part
    if defaults.server.answers_tools:
        messages = [
            message for pair in zip(messages, [*messages[1:], None], strict=True) for message in _answered(*pair)
        ]
    if defaults.server.ends_with_user and messages and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": GO_ON})
    return messages


def _answered(message: dict[str, Any], following: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return a message, and one of the model behind it if it is a tool's output before the user's next words."""
    is_bare = message["role"] == "tool" and following is not None and following["role"] == "user"
    return [message, {"role": "assistant", "content": " "}] if is_bare else [message]


def _calls(part: Calls, text: str | None, defaults: RequestDefaults) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []
    message: dict[str, Any] = {"role": "assistant", "content": text, "tool_calls": calls}
    for call, output in part.pairs:
        extra = unpack_extra(call.extra, defaults.maker)
        function = {"name": call.name, "arguments": call.arguments}
        of_call = drop_nones(extra_content=extra.get("extra_content"))
        call_id = _call_id(call.call_id, defaults.server.call_id_length)
        calls.append({"id": call_id, "type": "function", "function": function, **of_call})
        message |= drop_nones(reasoning_content=extra.get("reasoning_content"))
        outputs.append({"role": "tool", "tool_call_id": call_id, "content": output.output})
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
