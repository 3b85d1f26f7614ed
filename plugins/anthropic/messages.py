"""The request to the Messages API, sans-I/O.

The server reads a prefix that it has kept for less money and sooner, so a request changes nothing before its end:
instructions for one generation stand behind the words that it answers, and in front of the calls of its own turn. The
same order keeps thoughts valid, which newer models bind to all that stands before them.

Sources: `types/message_create_params.py` of anthropic 2.14.0; https://platform.claude.com/docs/en/build-with-claude/
prompt-caching, …/thinking, …/preserved-thinking, …/agents-and-tools/tool-use/implement-tool-use, …/api/errors.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.call_extra import unpack_extra
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.llm.transcript import NOTE, OPENING, Calls, Part, Words, is_from, split_at_turn
from vivavoce.plugins.anthropic.options import LLMOptions

Block = dict[str, Any]

NEXT = "It is your turn to speak."
FORCED = "Call {} now."
INVALID_INPUT = "INVALID_JSON"
"""The name of an input that a model wrote wrong. Source: …/tool-use/fine-grained-tool-streaming."""

NO_FORCED_CALLS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-mythos-5-1")
"""Begins of models that refuse `tool_choice` `any` and `tool`. Source: livekit-plugins-anthropic 1.8.9, `llm.py`."""

BINDING_BETA = "thinking-binding-controls-2026-08-01"
DROPS_INVALID = {"prefix_mismatch_behavior": "drop_block"}
"""Thoughts behind a history that has changed (the caller heard less of the words before them) are dropped; by default
the server refuses the request. Source: `types/beta/beta_thinking_block_binding_param.py`."""

OTHER_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters that the API refuses in the id and name of a call, which another provider may have made."""

MAX_NAME = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """The common values of all requests of one LLM.

    Args:
        maker: The name of the server and its model in the extras of its calls.
        thinking: The `thinking` of the requests; None: the server decides.
        is_own_server: Whether the server is Anthropic's own, which knows its newest fields.
    """

    model: str
    maker: str
    options: LLMOptions
    thinking: Block | None
    is_own_server: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it grows."""

    role: str
    content: list[Block]


class Conversation:
    """Puts the parts of a history into messages.

    Args:
        thoughts: The thoughts to give back, by the id of the call behind them.
    """

    def __init__(self, thoughts: dict[str, Block]) -> None:
        self._thoughts = thoughts
        self._ids: set[str] = set()
        self.messages: list[Message] = []
        self.gives_back = False
        """Whether thoughts go back."""

    def add(self, parts: Iterable[Part]) -> None:
        """Put further parts behind the others."""
        for part in parts:
            if isinstance(part, Calls):
                self._add_calls(part)
            elif blocks := _words(part):
                self._blocks("assistant" if part.role == "assistant" else "user").extend(blocks)

    def add_note(self, text: str) -> None:
        """Put a note for the model behind the others."""
        self._blocks("user").append(_text(NOTE.format(text)))

    @property
    def last(self) -> Block | None:
        """The last block, if there is one."""
        return self.messages[-1].content[-1] if self.messages else None

    @property
    def begins_without_thought(self) -> bool:
        """Whether the model's turn goes on with results, and did not begin with a thought."""
        first = ""
        for message in self.messages:
            if message.role == "assistant":
                first = first or message.content[0]["type"]
            elif message.content[0]["type"] != "tool_result":
                first = ""
        return first not in ("", "thinking", "redacted_thinking")

    def _add_calls(self, part: Calls) -> None:
        blocks = self._blocks("assistant")
        results: list[Block] = []
        for number, (call, output) in enumerate(part.pairs):
            thought = self._thoughts.get(call.id, {})
            if number == 0:
                blocks[:0] = thought.get("first", ())
            call_id = self._id(call.call_id)
            blocks += thought.get("thoughts", ())
            blocks.append({"type": "tool_use", "id": call_id, "name": _name(call), "input": _input(call.arguments)})
            results.append(_result(call_id, output))
            self.gives_back |= bool(thought)
        self.messages.append(Message("user", results))

    def _blocks(self, role: str) -> list[Block]:
        if not self.messages or self.messages[-1].role != role:
            if not self.messages and role == "assistant":  # the API wants the user to begin
                self.add_note(OPENING)
            self.messages.append(Message(role, []))
        return self.messages[-1].content

    def _id(self, call_id: str) -> str:
        """Return the id of a call, which the API wants to be new in each step, and of few characters."""
        base = OTHER_CHARACTERS.sub("_", call_id) or "call"
        found, number = base, 2
        while found in self._ids:
            found, number = f"{base}_{number}", number + 1
        self._ids.add(found)
        return found


def request_body(request: GenerateRequest, defaults: RequestDefaults) -> tuple[Block, dict[str, str]]:
    """Return the JSON of a request, and its headers."""
    options = defaults.options
    before, since = split_at_turn(request)
    leading = next((n for n, part in enumerate(before) if not is_from(part, "system")), len(before))
    system = [request.instructions, *(part.text for part in before[:leading] if isinstance(part, Words))]
    talk = Conversation(_thoughts(request, defaults))
    talk.add(before[leading:])
    breakpoints = [talk.last]
    if request.extra_instructions.strip():
        talk.add_note(request.extra_instructions)
    talk.add(since)
    breakpoints.append(talk.last)
    tools, choice = _tools(request, defaults, talk)
    if not talk.messages or talk.messages[-1].role == "assistant":  # newer models refuse to go on with their own words
        talk.add_note(NEXT if talk.messages else OPENING)
    system_blocks = [_text(text) for text in system if text.strip()]
    breakpoints.append(next((blocks[-1] for blocks in (system_blocks, tools) if blocks), None))
    if options.caching is not None:
        for block in breakpoints:
            if block is not None:
                block["cache_control"] = {"type": "ephemeral", **({"ttl": "1h"} if options.caching == "1h" else {})}
    body: Block = {"model": defaults.model, "max_tokens": options.max_output_tokens, "stream": True}
    body["messages"] = [{"role": message.role, "content": message.content} for message in talk.messages]
    thinking, headers = _thinking(defaults, talk, is_forced=choice.get("type") in ("any", "tool"))
    optional: Block = {
        "system": system_blocks,
        "tools": tools,
        "tool_choice": choice,
        "thinking": thinking,
        "output_config": {"effort": options.effort} if options.effort is not None else None,
    }
    body |= {name: value for name, value in optional.items() if value}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    return {**body, **options.extra_body}, headers


def _thoughts(request: GenerateRequest, defaults: RequestDefaults) -> dict[str, Block]:
    """Return the thoughts since the user's last words, by the id of the call that they led to."""
    found: dict[str, Block] = {}
    if _kind(defaults.thinking) == "disabled":
        return found
    for item in request.context:
        if isinstance(item, ChatMessage) and item.role == "user":
            found.clear()
        elif isinstance(item, FunctionCall) and (own := unpack_extra(item.extra, defaults.maker)):
            found[item.id] = own
    return found


def _kind(thinking: Block | None) -> str:
    """Return how the model thinks; one that thinks without being told decides it itself."""
    return "adaptive" if thinking is None else str(thinking["type"])


def _thinking(defaults: RequestDefaults, talk: Conversation, *, is_forced: bool) -> tuple[Block | None, dict[str, str]]:
    """Return the field, and headers.

    With a budget, the API refuses forced calls, and a turn whose calls have no thoughts, such as another model's.
    """
    thinking, kind = defaults.thinking, _kind(defaults.thinking)
    if kind == "enabled" and (is_forced or talk.begins_without_thought):
        return None, {}
    if not talk.gives_back or not defaults.is_own_server or kind == "between_tools":
        return thinking, {}
    return {**(thinking or {"type": "adaptive"}), "block_binding": DROPS_INVALID}, {"anthropic-beta": BINDING_BETA}


def _tools(request: GenerateRequest, defaults: RequestDefaults, talk: Conversation) -> tuple[list[Block], Block]:
    """Return tools and choice; a model that takes no forced choice gets it as a note."""
    names = {_name(item) for item in request.context if isinstance(item, FunctionCall)}
    if not request.tools:  # calls of a history need definitions all the same
        stubs = [{"name": name, "input_schema": {"type": "object"}} for name in sorted(names)]
        return stubs, {"type": "none"} if stubs else {}
    tools = [_tool(tool) for tool in request.tools]
    mode, name = request.tool_choice.mode, request.tool_choice.name
    choice: Block = {"type": {"auto": "auto", "required": "any", "none": "none", "named": "tool"}[mode]}
    if mode in ("required", "named") and defaults.model.startswith(NO_FORCED_CALLS):
        talk.add_note(FORCED.format(f"the tool {name}" if name else "one of the tools"))
        choice = {"type": "auto"}
    elif name:
        choice["name"] = name
    if choice["type"] != "none" and defaults.options.parallel_tool_calls is not None:
        choice["disable_parallel_tool_use"] = not defaults.options.parallel_tool_calls
    return tools, choice if choice != {"type": "auto"} else {}


def _name(call: FunctionCall) -> str:
    return OTHER_CHARACTERS.sub("_", call.name)[:MAX_NAME] or "tool"


def _tool(tool: Tool[..., object]) -> Block:
    schema = {"type": "object", **tool.parameters_schema()}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _words(words: Words) -> list[Block]:
    text = NOTE.format(words.text) if words.role == "system" else words.text
    blocks = [_text(text)] if text.strip() else []
    if words.role == "user":  # the API takes pictures from users only
        for image in words.images:
            data = base64.b64encode(image.data).decode("ascii")
            source = {"type": "base64", "media_type": image.media_type, "data": data}
            blocks.append({"type": "image", "source": source})
    return blocks


def _result(call_id: str, output: FunctionCallOutput) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": call_id}
    if output.output.strip():
        result["content"] = output.output
    return result | {"is_error": True} if output.is_error else result


def _input(arguments: str) -> Block:
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):  # a model may nest without end
        value = None
    return value if isinstance(value, dict) else {INVALID_INPUT: arguments}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
