"""Script: the answers of the twin, and the events that they become on the wire, sans-I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from vivavoce.plugins.anthropic.twin.cache import Tokens

ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Source: https://platform.claude.com/docs/en/api/errors; `types/shared/*_error_object.py`."""


class Fault(Enum):
    """An event in place of the next one."""

    HANG = "says nothing more and keeps the connection"
    CUT = "cuts the connection in the middle of the body"


HANG, CUT = Fault.HANG, Fault.CUT


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call.

    Args:
        id: Made by the twin if empty.
        pieces: The pieces in which the JSON of the arguments comes, instead of two halves.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Thought:
    """Thinking, which the twin signs; redacted: the client gets it encrypted."""

    text: str = ""
    is_redacted: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """An error event in the middle of the answer, which ends it.

    Source: https://platform.claude.com/docs/en/build-with-claude/streaming, "Error events".
    """

    type: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of the body as they are."""

    data: bytes


Step: TypeAlias = str | Call | Thought | Fail | Raw | Fault
"""A piece of text (pieces in a row are one block), or what its name says."""


@dataclass(frozen=True, slots=True, init=False)
class Answer:
    """A streamed answer.

    Args:
        steps: Its content, in order.
        stop_reason: By default `tool_use` with a call, else `end_turn`.
        stop_details: Of a refusal: `category` and `explanation`.
        output_tokens: By default counted.
    """

    steps: tuple[Step, ...]
    stop_reason: str
    stop_details: Mapping[str, Any] | None
    output_tokens: int | None

    def __init__(
        self,
        *steps: Step,
        stop_reason: str = "",
        stop_details: Mapping[str, Any] | None = None,
        output_tokens: int | None = None,
    ) -> None:
        has_call = any(isinstance(step, Call) for step in steps)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "stop_reason", stop_reason or ("tool_use" if has_call else "end_turn"))
        object.__setattr__(self, "stop_details", stop_details)
        object.__setattr__(self, "output_tokens", output_tokens)


@dataclass(frozen=True, slots=True)
class Refuse:
    """An error instead of an answer.

    Args:
        type: By default the one of the status.
    """

    status: int
    message: str = ""
    type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of the answer. Source: `types/shared/error_response.py`."""
        kind = self.type or ERROR_TYPES.get(self.status, "api_error")
        error = {"type": kind, "message": self.message or kind}
        return {"type": "error", "error": error, "request_id": "req_twin"}


Sign = Callable[[list[dict[str, Any]], str], str]
"""Returns the signature of a thought behind these blocks of the same answer."""

Event = dict[str, Any] | bytes | Fault
"""An event with its `type`, raw bytes, or a fault."""


class Playing:
    """Turns an answer into events.

    Args:
        number: Of the answer, for its ids.
        sign: Signs the thoughts.
    Source: https://platform.claude.com/docs/en/build-with-claude/streaming; `types/raw_*_event.py`.
    """

    def __init__(self, answer: Answer, model: str, number: int, tokens: Tokens, sign: Sign) -> None:
        self._answer = answer
        self._model = model
        self._number = number
        self._tokens = tokens
        self._sign = sign
        self.blocks: list[dict[str, Any]] = []
        """The content so far, as it would stand in the whole message."""

    def events(self) -> Iterator[Event]:
        """Yield the events."""
        yield self._start()
        yield {"type": "ping"}
        previous: Step | None = None
        for step in self._answer.steps:
            is_text = isinstance(step, str)
            if isinstance(previous, str) and not is_text:
                yield self._stop()
            if is_text and not isinstance(previous, str):
                yield self._begin({"type": "text", "text": ""})
            if isinstance(step, str):
                self.blocks[-1]["text"] += step
                yield self._delta({"type": "text_delta", "text": step})
            elif isinstance(step, Call):
                yield from self._call(step)
            elif isinstance(step, Thought):
                yield from self._thought(step)
            elif isinstance(step, Fail):
                yield {"type": "error", "error": {"type": step.type, "message": step.message}}
                return
            else:
                yield step.data if isinstance(step, Raw) else step
            previous = step
        if isinstance(previous, str):
            yield self._stop()
        yield self._end()
        yield {"type": "message_stop"}

    def _start(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "id": f"msg_{self._number:04}",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": self._model,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**self._tokens.usage, "output_tokens": 1},
        }
        return {"type": "message_start", "message": message}

    def _end(self) -> dict[str, Any]:
        answer = self._answer
        count = answer.output_tokens
        output = count if count is not None else sum(len(json.dumps(block)) for block in self.blocks) // 4 + 1
        delta = {"stop_reason": answer.stop_reason, "stop_sequence": None, "stop_details": answer.stop_details}
        return {"type": "message_delta", "delta": delta, "usage": {**self._tokens.usage, "output_tokens": output}}

    def _call(self, call: Call) -> Iterator[Event]:
        call_id = call.id or f"toolu_{self._number:04}_{len(self.blocks)}"
        block = {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}
        yield self._begin(block)
        text = json.dumps(dict(call.arguments))
        for piece in call.pieces or ("", text[: len(text) // 2], text[len(text) // 2 :]):
            yield self._delta({"type": "input_json_delta", "partial_json": piece})
        self.blocks[-1]["input"] = dict(call.arguments)
        yield self._stop()

    def _thought(self, thought: Thought) -> Iterator[Event]:
        signature = self._sign(self.blocks, thought.text)
        if thought.is_redacted:
            yield self._begin({"type": "redacted_thinking", "data": signature})
        else:
            yield self._begin({"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta({"type": "thinking_delta", "thinking": thought.text})
            yield self._delta({"type": "signature_delta", "signature": signature})
            self.blocks[-1] |= {"thinking": thought.text, "signature": signature}
        yield self._stop()

    def _begin(self, block: dict[str, Any]) -> dict[str, Any]:
        self.blocks.append(dict(block))
        return {"type": "content_block_start", "index": len(self.blocks) - 1, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": len(self.blocks) - 1, "delta": delta}

    def _stop(self) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": len(self.blocks) - 1}


def on_wire(event: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
