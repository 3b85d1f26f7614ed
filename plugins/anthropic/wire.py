"""The events of the Messages API, sans-I/O: from server-sent events to our events.

Sources: https://platform.claude.com/docs/en/build-with-claude/streaming; `types/raw_*_event.py` of anthropic 2.14.0.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.call_extra import pack_extra
from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import ServerEvent, json_object

logger = logging.getLogger(__name__)

PROVIDER = "anthropic"

CUT_REASONS = frozenset({"max_tokens", "model_context_window_exceeded", "refusal", "stop_sequence"})
"""Reasons why an answer may stop in the middle of a tool call."""

INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""The parts of the input; they add up. Source: `types/raw_message_delta_event.py`."""

DELTAS = {
    "text_delta": "text",
    "input_json_delta": "partial_json",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
"""Kinds of deltas and their fields. Source: `types/raw_content_block_delta.py`."""


class Reader:
    """Turns the events of one answer into ours.

    Call `feed()` for each event, then `finish()`, which returns the rest: tool calls, usage, `Done`.

    Args:
        maker: The name of the server and model in the extras of the calls.
    """

    def __init__(self, request: GenerateRequest, maker: str, failures: Failures) -> None:
        self._maker = maker
        self._failures = failures
        self._taken = {item.call_id for item in request.context if isinstance(item, FunctionCall)}
        self._blocks: dict[int, dict[str, Any]] = {}
        """The content by index, which is its order."""
        self._pieces: dict[int, str] = {}
        """The JSON of the calls' inputs."""
        self._usage: dict[str, int] = {}
        self._reason = ""
        self.is_over = False
        """Whether the last event has come."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has said why the answer ends; nothing of its content follows."""
        return bool(self._reason)

    def feed(self, event: ServerEvent) -> list[LLMEvent]:
        """Take the next event; kinds without a use here are ignored.

        Raises:
            ProviderError: It reports a failure, or breaks the protocol.
        """
        data = json_object(event.data, self._failures)
        match data.get("type"):
            case "message_start":
                self._count(_object(data.get("message")).get("usage"))
            case "content_block_start":
                return self._begin(self._index(data), _object(data.get("content_block")))
            case "content_block_delta":
                return self._grow(self._index(data), _object(data.get("delta")))
            case "message_delta":
                self._end(_object(data.get("delta")))
                self._count(data.get("usage"))
            case "message_stop":
                self.is_over = True
            case "error":
                error = _object(data.get("error"))
                raise self._failures.in_answer(error.get("type"), error.get("message"))
            case str():
                pass
            case other:
                raise self._failures.malformed("an event with a type", type(other).__name__)
        return []

    def finish(self) -> list[LLMEvent]:
        """Return the events that are known only at the end of the stream.

        Raises:
            ProviderError: The server did not end the answer.
        """
        if not self.is_complete:
            text = "the answer broke off: its stream ended before the server said why"
            raise ProviderProtocolError(text, provider=PROVIDER, retryable=True)
        events: list[LLMEvent] = list(self._calls())
        if self._usage:
            events.append(
                Usage(
                    input_tokens=sum(self._usage.get(name, 0) for name in INPUTS),
                    output_tokens=self._usage.get("output_tokens", 0),
                    cached_tokens=self._usage.get("cache_read_input_tokens", 0),
                    cache_write_tokens=self._usage.get("cache_creation_input_tokens", 0),
                )
            )
        return [*events, Done(self._reason)]

    def _begin(self, index: int, block: dict[str, Any]) -> list[LLMEvent]:
        self._blocks[index] = dict(block)
        text = self._text(block, "text")
        return [TextDelta(text)] if block.get("type") == "text" and text else []

    def _grow(self, index: int, delta: dict[str, Any]) -> list[LLMEvent]:
        block = self._blocks.get(index)
        field = DELTAS.get(self._text(delta, "type"))
        if field is None:  # of the future, or without a use here
            return []
        if block is None:
            raise self._failures.malformed("content_block_start before a delta", "a delta")
        piece = self._text(delta, field)
        if field == "partial_json":
            self._pieces[index] = self._pieces.get(index, "") + piece
        elif field == "text":
            return [TextDelta(piece)] if piece else []
        else:
            block[field] = self._text(block, field) + piece
        return []

    def _end(self, delta: dict[str, Any]) -> None:
        self._reason = self._text(delta, "stop_reason") or self._reason
        if self._reason == "refusal":
            category = self._text(_object(delta.get("stop_details")), "category")
            logger.warning("anthropic: the model refused to answer (%s)", category or "no category")

    def _count(self, usage: object) -> None:
        for name, value in _object(usage).items():  # each message tells the sums so far; a null tells nothing
            if isinstance(value, int) and not isinstance(value, bool):
                self._usage[name] = value

    def _calls(self) -> Iterable[ToolCall]:
        """Yield the calls, each with the thoughts behind the call before it; those before the words stand apart."""
        first: list[dict[str, Any]] = []
        thoughts: list[dict[str, Any]] = []
        has_call = False
        for index, block in sorted(self._blocks.items()):
            kind = block.get("type")
            if kind in ("thinking", "redacted_thinking"):
                thoughts.append(block)
            elif kind == "text" and not has_call:
                first, thoughts = [*first, *thoughts], []
            elif kind == "tool_use" and (call := self._call(index, block, {"first": first, "thoughts": thoughts})):
                yield call
                first, thoughts, has_call = [], [], True

    def _call(self, index: int, block: dict[str, Any], extra: dict[str, Any]) -> ToolCall | None:
        arguments = self._pieces.get(index, "").strip() or json.dumps(block.get("input") or {})
        if self._reason == "refusal" or (self._reason in CUT_REASONS and not _is_json(arguments)):
            logger.warning("anthropic: the answer ended (%s) with a tool call, which is dropped", self._reason)
            return None
        name, call_id = self._text(block, "name"), self._text(block, "id")
        if not name:
            raise self._failures.malformed("a tool call with a name", "none")
        if not call_id or call_id in self._taken:  # of a server that copies the API
            call_id = new_id("call")
        self._taken.add(call_id)
        packed = pack_extra(self._maker, {key: blocks for key, blocks in extra.items() if blocks})
        return ToolCall(call_id=call_id, name=name, arguments=arguments, extra=packed)

    def _index(self, data: dict[str, Any]) -> int:
        index = data.get("index")
        if not isinstance(index, int):
            raise self._failures.malformed("index as a number", type(index).__name__)
        return index

    def _text(self, holder: dict[str, Any], name: str) -> str:
        value = holder.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._failures.malformed(f"{name} as text", type(value).__name__)
        return value


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # a model may nest without end
        return False
    return True
