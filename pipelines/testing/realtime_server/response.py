"""Response: plays one scripted answer as the protocol's events."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.testing.realtime_server.conversation import Conversation, text_of
from vivavoce.pipelines.testing.realtime_server.script import (
    RATE,
    SAMPLE_BYTES,
    AnswerFault,
    AskedFor,
    ScriptedAnswer,
    ScriptedCall,
)

Send = Callable[..., Awaitable[None]]

PIECE = 0.1
"""Seconds of audio in one delta."""

INPUT_TOKENS_PER_SECOND, OUTPUT_TOKENS_PER_SECOND = 10, 20
"""Of audio, as the service counts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The context of a response, besides the answer.

    Args:
        is_default: Whether its items join the conversation (`conversation: "auto"`).
        audio_seconds: Of the user's, so far, for usage.
    """

    asked: AskedFor
    output: dict[str, Any]
    max_output_tokens: Any
    is_default: bool
    audio_seconds: float


class Response:
    """One answer, from `response.created` to `response.done`.

    Args:
        send: Sends one server event: its type, then its fields.
        fault: Carries out the faults that concern more than this answer.
        after: The answer before, which may still be reporting its cancellation.
    """

    def __init__(
        self,
        asking: Asking,
        answer: ScriptedAnswer | None,
        conversation: Conversation,
        *,
        send: Send,
        speech: Callable[[str, ScriptedAnswer], bytes],
        fault: Callable[[AnswerFault], Awaitable[None]],
        after: Response | None,
    ) -> None:
        self.id = new_id("resp")
        self._asking = asking
        self._answer = answer or ScriptedAnswer()
        self._is_over = answer is None
        self._conversation = conversation
        self._send = send
        self._speech = speech
        self._fault = fault
        self._after = after
        self._scope = anyio.CancelScope()
        self._reason = ""
        self._output: list[dict[str, Any]] = []
        self._seconds = 0.0
        self.finished = anyio.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return bool(self._reason)

    def cancel(self, reason: str) -> None:
        """End it: `turn_detected` or `client_cancelled`."""
        self._reason = self._reason or reason
        self._scope.cancel()

    async def run(self) -> None:
        """Play it to its end, or until it is cancelled."""
        if self._after is not None:
            await self._after.finished.wait()
        await self._send("response.created", response=self._object("in_progress", None))
        failure: dict[str, Any] | None = None
        with self._scope:
            await anyio.sleep(self._answer.delay)
            failure = await self._play()
        if self._scope.cancelled_caught:
            await self._cut()
            await self._done("cancelled", {"type": "cancelled", "reason": self._reason})
        elif failure is not None:
            await self._done("failed", {"type": "failed", "error": failure})
        else:
            await self._done("completed", None)
        self.finished.set()

    async def _play(self) -> dict[str, Any] | None:
        if self._is_over:
            return _error("server_error", "script_over", "The script is over; add an answer.")
        if self._answer.calls_first:
            await self._call_all()
        if self._answer.text:
            failure = await self._message()
            if failure is not None:
                return failure
        elif (failure := await self._maybe_fault(self._answer.fault_after)) is not None:
            return failure
        if not self._answer.calls_first:
            await self._call_all()
        return None

    async def _call_all(self) -> None:
        for call in self._answer.calls:
            await self._call(call)

    async def _message(self) -> dict[str, Any] | None:
        is_audio = self._asking.asked.modality == "audio"
        item = self._item(type="message", role="assistant", content=[])
        announced = self._announce(item, "audio" if is_audio else "text")
        if self._answer.fault is not AnswerFault.OUT_OF_ORDER:
            async for _ in announced:
                pass
        words = self._answer.text.split(" ")
        for number, word in enumerate(words):
            if (failure := await self._maybe_fault(number)) is not None:
                return failure
            await self._word(item, word if number == 0 else f" {word}", is_audio)
            async for _ in announced:  # out of order: only now
                pass
        if (failure := await self._maybe_fault(len(words), is_last=True)) is not None:
            return failure
        await self._finish_message(item, is_audio)
        return None

    async def _maybe_fault(self, number: int, *, is_last: bool = False) -> dict[str, Any] | None:
        """Apply the script's fault after this many words; return how the answer fails by it."""
        fault, after = self._answer.fault, self._answer.fault_after
        if fault is None or not (number == after or (is_last and number < after)):
            return None
        if fault is AnswerFault.RATE_LIMIT:
            return _error("rate_limit_error", "rate_limit_exceeded", "Rate limit reached. Please try again in 1s.")
        if fault is AnswerFault.FAIL:
            return _error("server_error", "server_error", "The server had an error while processing your request.")
        await self._fault(fault)
        return None

    async def _announce(self, item: dict[str, Any], kind: str) -> AsyncIterator[None]:
        await self._add(item)
        part = {"type": "audio", "transcript": ""} if kind == "audio" else {"type": "text", "text": ""}
        await self._send("response.content_part.added", **self._at(item), content_index=0, part=part)
        yield

    async def _word(self, item: dict[str, Any], word: str, is_audio: bool) -> None:
        at = self._at(item)
        part = _part(item, is_audio)
        part["transcript" if is_audio else "text"] += word
        if not is_audio:
            await self._send("response.output_text.delta", **at, content_index=0, delta=word)
            return
        await self._send("response.output_audio_transcript.delta", **at, content_index=0, delta=word)
        pcm = self._speech(word.strip(), self._answer)
        size = round(PIECE * RATE) * SAMPLE_BYTES
        for start in range(0, len(pcm), size):
            piece = pcm[start : start + size]
            delta = base64.b64encode(piece).decode("ascii")
            await self._send("response.output_audio.delta", **at, content_index=0, delta=delta)
            seconds = len(piece) / (RATE * SAMPLE_BYTES)
            self._seconds += seconds
            self._conversation.heard(item["id"], round(self._seconds * 1000))
            await anyio.sleep(seconds / self._answer.speed)

    async def _finish_message(self, item: dict[str, Any], is_audio: bool) -> None:
        at, text = {**self._at(item), "content_index": 0}, text_of(item)
        if is_audio:
            await self._send("response.output_audio.done", **at)
            await self._send("response.output_audio_transcript.done", **at, transcript=text)
            part = {"type": "audio", "transcript": text}
        else:
            await self._send("response.output_text.done", **at, text=text)
            part = {"type": "text", "text": text}
        await self._send("response.content_part.done", **at, part=part)
        await self._close(item, "completed")

    async def _call(self, call: ScriptedCall) -> None:
        item = self._item(type="function_call", name=call.name, call_id=new_id("call"), arguments="")
        await self._add(item)
        at = {**self._at(item), "call_id": item["call_id"]}
        middle = len(call.arguments) // 2
        for delta in (call.arguments[:middle], call.arguments[middle:]):
            await self._send("response.function_call_arguments.delta", **at, delta=delta)
        item["arguments"] = call.arguments
        done = {"name": call.name, "arguments": call.arguments}
        await self._send("response.function_call_arguments.done", **at, **done)
        await self._close(item, "completed")

    async def _cut(self) -> None:
        for item in self._output:
            if item["status"] == "in_progress":
                await self._close(item, "incomplete")

    async def _done(self, status: str, details: dict[str, Any] | None) -> None:
        await self._send("response.done", response=self._object(status, details) | {"usage": self._usage()})
        limits = [
            {"name": "requests", "limit": 1000, "remaining": 999, "reset_seconds": 60},
            {"name": "tokens", "limit": 50000, "remaining": 49950, "reset_seconds": 0.5},
        ]
        await self._send("rate_limits.updated", rate_limits=limits)

    def _item(self, **fields: Any) -> dict[str, Any]:
        return {"id": new_id("item"), "object": "realtime.item", "status": "in_progress", **fields}

    def _at(self, item: dict[str, Any]) -> dict[str, Any]:
        index = next((number for number, one in enumerate(self._output) if one is item), len(self._output))
        return {"response_id": self.id, "item_id": item["id"], "output_index": index}

    async def _add(self, item: dict[str, Any]) -> None:
        at = self._at(item)
        self._output.append(item)
        shown = {**item, "content": []} if "content" in item else dict(item)
        where = {"response_id": self.id, "output_index": at["output_index"]}
        await self._send("response.output_item.added", **where, item=shown)
        if self._asking.is_default:
            previous = self._conversation.add(item)
            await self._send("conversation.item.added", previous_item_id=previous, item=shown)

    async def _close(self, item: dict[str, Any], status: str) -> None:
        item["status"] = status
        if self._asking.is_default:
            await self._send("conversation.item.done", previous_item_id=None, item=item)
        where = {"response_id": self.id, "output_index": self._at(item)["output_index"]}
        await self._send("response.output_item.done", **where, item=item)

    def _object(self, status: str, details: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": [dict(item) for item in self._output],
            "conversation_id": self._conversation.id if self._asking.is_default else None,
            "output_modalities": [self._asking.asked.modality],
            "max_output_tokens": self._asking.max_output_tokens,
            "audio": {"output": self._asking.output},
            "usage": None,
            "metadata": dict(self._asking.asked.metadata) or None,
        }

    def _usage(self) -> dict[str, Any]:
        asked = self._asking.asked
        said = [text_of(dict(item)) for item in asked.items if item["type"] == "message"]
        text_in = sum(_tokens(text) for text in (asked.instructions, *said))
        audio_in = round(self._asking.audio_seconds * INPUT_TOKENS_PER_SECOND)
        audio_out = round(self._seconds * OUTPUT_TOKENS_PER_SECOND)
        text_out = sum(
            _tokens(text_of(item) if item["type"] == "message" else item["arguments"]) for item in self._output
        )
        cached = _tokens(asked.instructions)
        return {
            "total_tokens": text_in + audio_in + text_out + audio_out,
            "input_tokens": text_in + audio_in,
            "output_tokens": text_out + audio_out,
            "input_token_details": {
                "text_tokens": text_in,
                "audio_tokens": audio_in,
                "image_tokens": 0,
                "cached_tokens": cached,
                "cached_tokens_details": {"text_tokens": cached, "audio_tokens": 0, "image_tokens": 0},
            },
            "output_token_details": {"text_tokens": text_out, "audio_tokens": audio_out},
        }


def _part(item: dict[str, Any], is_audio: bool) -> dict[str, Any]:
    if not item["content"]:
        empty = {"type": "output_audio", "transcript": ""} if is_audio else {"type": "output_text", "text": ""}
        item["content"].append(empty)
    part: dict[str, Any] = item["content"][0]
    return part


def _tokens(text: str) -> int:
    return round(len(text.split()) * 4 / 3)


def _error(kind: str, code: str, message: str) -> dict[str, Any]:
    return {"type": kind, "code": code, "message": message}
