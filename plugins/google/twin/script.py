"""Script: the answers of the twin, and the events that they become on the wire, sans-I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

STATUSES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Source: https://ai.google.dev/gemini-api/docs/troubleshooting; `google/rpc/code.proto`."""


class Fault(Enum):
    """An event in place of the next one."""

    HANG = "says nothing more and keeps the connection"
    CUT = "cuts the connection in the middle of the body"


HANG, CUT = Fault.HANG, Fault.CUT


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; the first one of an answer is signed, as Gemini 3 does.

    Args:
        id: The API gives one or none, by model and server.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Thought:
    """A summary of a thought, which a client gets that asks for it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """An error: instead of an answer, or as a step in the middle of one, which it ends.

    Args:
        reason: Of its `ErrorInfo`, such as `API_KEY_INVALID`.
        retry_delay: Of its `RetryInfo`, such as `"26s"`.
        quota_id: Of its `QuotaFailure`, such as `GenerateRequestsPerMinutePerProjectPerModel`.
    Source: https://google.aip.dev/193; `google/rpc/error_details.proto`.
    """

    code: int
    message: str = ""
    status: str = ""
    reason: str = ""
    retry_delay: str = ""
    quota_id: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        kind = "type.googleapis.com/google.rpc."
        details: list[dict[str, Any]] = []
        if self.reason:
            details.append({"@type": f"{kind}ErrorInfo", "reason": self.reason, "domain": "googleapis.com"})
        if self.quota_id:
            details.append({"@type": f"{kind}QuotaFailure", "violations": [{"quotaId": self.quota_id}]})
        if self.retry_delay:
            details.append({"@type": f"{kind}RetryInfo", "retryDelay": self.retry_delay})
        status = self.status or STATUSES.get(self.code, "UNKNOWN")
        error = {"code": self.code, "message": self.message or status, "status": status}
        return {"error": {**error, "details": details} if details else error}


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of the body as they are."""

    data: bytes


Step: TypeAlias = str | Call | Thought | Refuse | Raw | Fault
"""A piece of text, or what its name says."""


@dataclass(frozen=True, slots=True, init=False)
class Answer:
    """A streamed answer.

    Args:
        steps: Its content, in order; each is an event.
        finish_reason: By default `STOP`. Source: `FinishReason` in `types.py`.
        block_reason: The prompt is blocked: there is no candidate. Source: `BlockedReason`.
        output_tokens: By default counted.
        thought_tokens: Those of thinking.
    """

    steps: tuple[Step, ...]
    finish_reason: str
    block_reason: str
    output_tokens: int | None
    thought_tokens: int

    def __init__(
        self,
        *steps: Step,
        finish_reason: str = "STOP",
        block_reason: str = "",
        output_tokens: int | None = None,
        thought_tokens: int = 0,
    ) -> None:
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "finish_reason", finish_reason)
        object.__setattr__(self, "block_reason", block_reason)
        object.__setattr__(self, "output_tokens", output_tokens)
        object.__setattr__(self, "thought_tokens", thought_tokens)


Sign = Callable[[], str]
"""Returns a new signature."""

Event = dict[str, Any] | bytes | Fault
"""An event, raw bytes, or a fault."""


class Playing:
    """Turns an answer into events.

    Args:
        number: Of the answer, for its id.
        tokens: The prompt's fields of the usage.
        sign: Signs the thoughts; None: a model that does not.
    Source: https://ai.google.dev/api/generate-content; `GenerateContentResponse` in `types.py` of google-genai 3.6.1.
    """

    def __init__(self, answer: Answer, model: str, number: int, tokens: Mapping[str, int], sign: Sign | None) -> None:
        self._answer = answer
        self._model = model
        self._number = number
        self._tokens = tokens
        self._sign = sign
        self.parts: list[dict[str, Any]] = []
        """The content so far."""

    def events(self) -> Iterator[Event]:
        """Yield the events."""
        if self._answer.block_reason:
            yield self._event(promptFeedback={"blockReason": self._answer.block_reason})
            return
        has_call = False
        for step in self._answer.steps:
            if isinstance(step, str):
                yield self._part({"text": step})
            elif isinstance(step, Thought):
                yield self._part({"text": step.text, "thought": True})
            elif isinstance(step, Call):
                yield self._part(self._call(step, is_first=not has_call))
                has_call = True
            elif isinstance(step, Refuse):  # in lines of JSON, as `_aiter_response_stream` of the SDK expects it
                yield json.dumps(step.body, indent=2).encode() + b"\n\n"
                return
            else:
                yield step.data if isinstance(step, Raw) else step
        last: dict[str, Any] = {"text": ""}
        if self._sign is not None and not has_call:  # source: …/thought-signatures, "non-function-call responses"
            last["thoughtSignature"] = self._sign()
        candidate: dict[str, Any] = {"finishReason": self._answer.finish_reason, "index": 0}
        if self._answer.finish_reason == "STOP":
            candidate["content"] = {"parts": [last], "role": "model"}
        yield self._event(candidates=[candidate])

    def _call(self, call: Call, *, is_first: bool) -> dict[str, Any]:
        part: dict[str, Any] = {"functionCall": {"name": call.name, "args": dict(call.args)}}
        if call.id:
            part["functionCall"]["id"] = call.id
        if self._sign is not None and is_first:
            part["thoughtSignature"] = self._sign()
        return part

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        self.parts.append(part)
        return self._event(candidates=[{"content": {"parts": [part], "role": "model"}, "index": 0}])

    def _event(self, **fields: Any) -> dict[str, Any]:
        count, thoughts = self._answer.output_tokens, self._answer.thought_tokens
        output = count if count is not None else sum(len(json.dumps(part)) for part in self.parts) // 4
        usage = {**self._tokens, "candidatesTokenCount": output}
        if thoughts:
            usage["thoughtsTokenCount"] = thoughts
        usage["totalTokenCount"] = self._tokens["promptTokenCount"] + output + thoughts
        shared = {"modelVersion": self._model, "responseId": f"twin{self._number:04}"}
        return {**fields, "usageMetadata": usage, **shared}


def on_wire(event: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    return f"data: {json.dumps(event)}\r\n\r\n".encode()
