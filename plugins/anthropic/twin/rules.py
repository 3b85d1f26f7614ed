"""Rules: the requests that the API refuses, with the statuses, kinds and (in part) texts of its errors, sans-I/O.

Sources by rule, as pages of https://platform.claude.com/docs/en: `api/messages` (fields of the body; `types/
message_create_params.py`), `api/versioning`, `api/errors`, `agents-and-tools/tool-use/implement-tool-use` (names,
choice, results right behind the calls), `build-with-claude/vision`, `…/prompt-caching`, `…/thinking`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, TypeGuard

from vivavoce.plugins.anthropic.twin.cache import blocks_of, content_of
from vivavoce.plugins.anthropic.twin.script import Refuse
from vivavoce.plugins.anthropic.twin.thoughts import BINDING_BETA, drops_invalid, invalid_thoughts

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
MAX_BREAKPOINTS = 4
MIN_BUDGET = 1024
MEDIA_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
THINKING = frozenset({"disabled", "adaptive", "enabled", "between_tools"})
CHOICES = frozenset({"auto", "any", "tool", "none"})
OF_ASSISTANT = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
OF_USER = frozenset({"text", "image", "tool_result"})

Messages = list[tuple[str, list[dict[str, Any]]]]
"""Roles and blocks, after the API has joined the messages of one role in a row."""


def refusal_of(
    headers: Mapping[str, str], body: Any, *, keys: frozenset[str] | None, models: frozenset[str] | None
) -> Refuse | None:
    """Return the error for a request; None if the API would answer it.

    Args:
        headers: With names in any case.
        keys, models: Those that there are; None: any.
    """
    refusal = refusal_of_headers(headers, keys)
    if refusal is not None:
        return refusal
    if not isinstance(body, dict):
        return Refuse(400, "The request body is not valid JSON")
    if models is not None and body.get("model") not in models:
        return Refuse(404, f"model: {body.get('model')}")
    try:
        problem = next(_problems(body, headers.get("anthropic-beta", "")), None)
    except (AttributeError, KeyError, TypeError) as error:  # a field of another type
        problem = f"body: Input should be a valid dictionary ({type(error).__name__})"
    return Refuse(400, problem) if problem is not None else None


def refusal_of_headers(headers: Mapping[str, str], keys: frozenset[str] | None) -> Refuse | None:
    """Return the error for the headers of any request; None if the API would answer it.

    Args:
        headers, keys: As `refusal_of()`.
    """
    bearer = headers.get("authorization", "")
    key = headers.get("x-api-key", "") or bearer.removeprefix("Bearer ")
    if not key:
        return Refuse(401, "x-api-key header is required")
    if keys is not None and key not in keys:
        return Refuse(401, "invalid x-api-key")
    return None if headers.get("anthropic-version") else Refuse(400, "anthropic-version: header is required")


def _problems(body: Mapping[str, Any], betas: str) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    if not _is_count(body.get("max_tokens")):
        yield "max_tokens: Input should be greater than or equal to 1"
    temperature = body.get("temperature", 1)
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 1:
        yield "temperature: range: 0..1"
    messages: Messages = [
        (role, [block for message in group for block in content_of(message.get("content"))])
        for role, group in groupby(body.get("messages") or (), key=lambda message: message["role"])
    ]
    if not messages:
        yield "messages: at least one message is required"
    yield from _of_blocks(body, messages)
    yield from _of_calls(messages)
    yield from _of_tools(body, messages)
    yield from _of_thinking(body, messages, betas)
    if messages[0][0] != "user":
        yield 'messages: first message must use the "user" role'
    if messages[-1][0] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _of_tools(body: Mapping[str, Any], messages: Messages) -> Iterator[str]:
    tools, choice = body.get("tools") or [], body.get("tool_choice")
    names = [tool.get("name") for tool in tools]
    for number, tool in enumerate(tools):
        schema = tool.get("input_schema") or {}
        if not isinstance(tool.get("name"), str) or not NAME.fullmatch(tool["name"]):
            yield f"tools.{number}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if schema.get("type") != "object":
            yield f"tools.{number}.custom.input_schema.type: Field required"
        if {"oneOf", "allOf", "anyOf"} & set(schema):
            yield f"tools.{number}.custom.input_schema: does not support oneOf, allOf, or anyOf at the top level"
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    if choice is not None and not tools:
        yield "tool_choice may only be specified while providing tools"
    if choice is not None and choice.get("type") not in CHOICES:
        yield "tool_choice: Input tag does not match any of the expected tags"
    if choice is not None and choice.get("type") == "tool" and choice.get("name") not in names:
        yield f"Tool '{choice.get('name')}' not found in provided tools"
    if choice is not None and choice.get("type") == "none" and "disable_parallel_tool_use" in choice:
        yield "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted"
    has_calls = any(block.get("type") == "tool_use" for _, blocks in messages for block in blocks)
    if has_calls and not tools:  # as proxies to several clouds report it
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"


def _of_thinking(body: Mapping[str, Any], messages: Messages, betas: str) -> Iterator[str]:
    thinking = body.get("thinking") or {"type": "disabled"}
    kind, budget = thinking.get("type"), thinking.get("budget_tokens")
    if kind not in THINKING:
        yield "thinking: Input tag does not match any of the expected tags"
    if "block_binding" in thinking and BINDING_BETA not in betas:
        yield f"thinking.{kind}.block_binding: Extra inputs are not permitted"
    if kind == "enabled":
        if not _is_count(budget) or budget < MIN_BUDGET:
            yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {MIN_BUDGET}"
        elif budget >= body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
        if body.get("temperature", 1) != 1:
            yield "`temperature` may only be set to 1 when thinking is enabled"
        if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
            yield "Thinking may not be enabled when tool_choice forces tool use."
        first = _first_of_turn(messages)
        if first is not None and first not in ("thinking", "redacted_thinking"):
            yield (
                f"messages: Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is "
                "enabled, a final `assistant` message must start with a thinking block"
            )
    if not drops_invalid(body, betas):
        yield from invalid_thoughts(body)


def _first_of_turn(messages: Messages) -> Any:
    """Return the kind of the model's first block since the user's last words, if the turn goes on with results."""
    first = None
    for role, blocks in messages:
        if role == "assistant" and first is None:
            first = blocks[0].get("type") if blocks else None
        elif role == "user" and all(block.get("type") != "tool_result" for block in blocks):
            first = None
    return first


def _of_blocks(body: Mapping[str, Any], messages: Messages) -> Iterator[str]:
    breakpoints = [block for _, block in blocks_of(body) if block.get("cache_control")]
    if len(breakpoints) > MAX_BREAKPOINTS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(breakpoints)}."
    if any(block.get("type") in ("thinking", "redacted_thinking") for block in breakpoints):
        yield "messages: cache_control cannot be set for thinking blocks"
    if any(block["cache_control"].get("type") != "ephemeral" for block in breakpoints):
        yield "cache_control.type: Input should be 'ephemeral'"
    for block in content_of(body.get("system")):
        if block.get("type") != "text" or not str(block.get("text", "")).strip():
            yield "system: text content blocks must be non-empty"
    for number, (role, blocks) in enumerate(messages):
        if role == "system":
            yield f"messages.{number}: role 'system' is not supported on this model"
        if not blocks:
            yield f"messages.{number}: all messages must have non-empty content"
        for block in blocks:
            if block.get("type") not in (OF_ASSISTANT if role == "assistant" else OF_USER):
                yield f"messages.{number}.content: `{block.get('type')}` blocks are not permitted in {role} messages"
            if block.get("type") == "text" and not str(block.get("text", "")).strip():
                yield "messages: text content blocks must contain non-whitespace text"
            if block.get("type") == "image":
                yield from _of_image(number, block.get("source") or {})


def _of_image(number: int, source: Mapping[str, Any]) -> Iterator[str]:
    where = f"messages.{number}.content.image.source"
    if source.get("media_type") not in MEDIA_TYPES:
        yield f"{where}.base64.media_type: Input should be one of {sorted(MEDIA_TYPES)}"
    try:
        base64.b64decode(source.get("data", ""), validate=True)
    except (binascii.Error, ValueError):
        yield f"{where}.base64: invalid base64 data"


def _of_calls(messages: Messages) -> Iterator[str]:
    seen: set[str] = set()
    for number, (role, blocks) in enumerate(messages):
        calls = [block for block in blocks if block.get("type") == "tool_use"] if role == "assistant" else []
        for call in calls:
            if not isinstance(call.get("id"), str) or not CALL_ID.fullmatch(call["id"]):
                yield f"messages.{number}.content.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if not isinstance(call.get("name"), str) or not NAME.fullmatch(call["name"]):
                yield f"messages.{number}.content.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            if not isinstance(call.get("input"), dict):
                yield f"messages.{number}.content.tool_use.input: Input should be a valid dictionary"
            if call["id"] in seen:
                yield f"messages.{number}.content: `tool_use` ids must be unique"
            seen.add(call["id"])
        if role == "user":
            before = messages[number - 1][1] if number else []
            yield from _of_results(number, blocks, [block for block in before if block.get("type") == "tool_use"])
        elif calls and number == len(messages) - 1:
            yield _without_result(number, calls[0]["id"])


def _of_results(number: int, blocks: list[dict[str, Any]], calls: list[dict[str, Any]]) -> Iterator[str]:
    results = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    wanted = [call["id"] for call in calls]
    for one in wanted:
        if one not in results or blocks[0].get("type") != "tool_result":
            yield _without_result(number - 1, one)
    for one in results:
        if one not in wanted:
            yield f"messages.{number}.content: unexpected `tool_use_id` found in `tool_result` blocks: {one}"
    if len(set(results)) < len(results):
        yield f"messages.{number}.content: each tool_use must have a single result"


def _without_result(number: int, call_id: str) -> str:
    return (
        f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: {call_id}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
