"""The answers of `streamGenerateContent`, sans-I/O: from server-sent events to our events.

Sources: https://ai.google.dev/api/generate-content; `GenerateContentResponse`, `Candidate`, `Part`, `FinishReason`,
`BlockedReason` and `GenerateContentResponseUsageMetadata` in `types.py` of google-genai 3.6.1.
"""

from __future__ import annotations

import json
import logging
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

PROVIDER = "google"

REFUSALS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "ESCALATION",
        "PUP_LIMITED_DISABLED",
        "MODEL_ARMOR",
    }
)
"""Reasons for which the server withholds an answer: an outcome, whose calls are not run."""

BROKEN = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})
"""The model wrote a call that the server cannot read or does not know; the next try may do better."""

USAGE = {
    "promptTokenCount": "input",
    "toolUsePromptTokenCount": "input",
    "candidatesTokenCount": "output",
    "thoughtsTokenCount": "output",
    "cachedContentTokenCount": "cached",
}


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
        self._calls: list[ToolCall] = []
        self._usage: dict[str, int] = {}
        self._reason = ""
        self._is_withheld = False
        self._has_text = False

    @property
    def is_complete(self) -> bool:
        """Whether the server has said why the answer ends; nothing of its content follows."""
        return bool(self._reason)

    @property
    def is_over(self) -> bool:
        """Whether nothing of use follows."""
        return self.is_complete and bool(self._usage)

    def feed(self, event: ServerEvent) -> list[LLMEvent]:
        """Take the next event; parts without a use here are ignored.

        Raises:
            ProviderError: It reports a failure, or breaks the protocol.
        """
        data = json_object(event.data, self._failures)
        if isinstance(error := data.get("error"), dict):
            code = error.get("code")
            if isinstance(code, int) and 400 <= code < 600:
                raise self._failures.status(code, None, data)
            raise self._failures.in_answer(error.get("status"), error.get("message"))
        self._count(_object(data.get("usageMetadata")))
        if block := self._reason_in(_object(data.get("promptFeedback")), "blockReason"):
            self._reason, self._is_withheld = block, True
        candidates = data.get("candidates") or []
        if not isinstance(candidates, list):
            raise self._failures.malformed("candidates as a list", type(candidates).__name__)
        candidate = _object(candidates[0]) if candidates else {}
        events: list[LLMEvent] = []
        parts = _object(candidate.get("content")).get("parts") or []
        if not isinstance(parts, list):
            raise self._failures.malformed("parts as a list", type(parts).__name__)
        for part in map(_object, parts):
            if isinstance(call := part.get("functionCall"), dict):
                self._calls.append(self._call(call, part))
            elif not part.get("thought") and (text := self._text(part, "text")):
                self._has_text = True
                events.append(TextDelta(text))
        self._reason = self._reason_in(candidate, "finishReason") or self._reason
        self._is_withheld |= self._reason in REFUSALS
        return events

    def finish(self) -> list[LLMEvent]:
        """Return the events that are known only at the end of the stream.

        Raises:
            ProviderError: The server did not end the answer, or the model wrote an invalid call.
        """
        if not self.is_complete:
            text = "the answer broke off: its stream ended before the server said why"
            raise ProviderProtocolError(text, provider=PROVIDER, retryable=True)
        if self._reason in BROKEN:
            text = f"the model wrote a tool call that cannot be read, or of no tool of the request: {self._reason}"
            raise ProviderProtocolError(text, provider=PROVIDER, retryable=True)
        if self._reason == "MISSING_THOUGHT_SIGNATURE":
            raise self._failures.in_answer(400, self._reason)
        self._warn()
        calls = [] if self._is_withheld else self._calls
        return [*calls, *self._used(), Done(self._reason)]

    def _warn(self) -> None:
        if self._is_withheld:
            logger.warning("google: the model's answer is withheld (%s)", self._reason)
        elif self._reason == "MAX_TOKENS" and not self._has_text and not self._calls:
            logger.warning(
                "google: the answer reached max_output_tokens before its first word, since thinking counts too; give "
                "more tokens or less thinking"
            )

    def _used(self) -> list[LLMEvent]:
        if not self._usage:
            return []
        sums = dict.fromkeys(USAGE.values(), 0)
        for name, kind in USAGE.items():
            sums[kind] += self._usage.get(name, 0)
        return [Usage(input_tokens=sums["input"], output_tokens=sums["output"], cached_tokens=sums["cached"])]

    def _count(self, usage: dict[str, Any]) -> None:
        for name, value in usage.items():  # each event tells the sums so far
            if name in USAGE and isinstance(value, int) and not isinstance(value, bool):
                self._usage[name] = value

    def _call(self, call: dict[str, Any], part: dict[str, Any]) -> ToolCall:
        name, given = self._text(call, "name"), self._text(call, "id")
        arguments = call.get("args")
        if not name or not (arguments is None or isinstance(arguments, dict)):
            raise self._failures.malformed("a functionCall with a name and an object of args", "another one")
        call_id = given if given and given not in self._taken else new_id("call")
        self._taken.add(call_id)
        kept = {"signature": self._text(part, "thoughtSignature"), "id": given}
        extra = pack_extra(self._maker, {key: value for key, value in kept.items() if value})
        return ToolCall(call_id=call_id, name=name, arguments=json.dumps(arguments or {}), extra=extra)

    def _reason_in(self, holder: dict[str, Any], name: str) -> str:
        """Return a reason; the first value of each enumeration stands for none."""
        reason = self._text(holder, name)
        return "" if reason.endswith("_UNSPECIFIED") else reason

    def _text(self, holder: dict[str, Any], name: str) -> str:
        value = holder.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._failures.malformed(f"{name} as text", type(value).__name__)
        return value


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
