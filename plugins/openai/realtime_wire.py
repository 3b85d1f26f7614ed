"""The Realtime API's conversation, sans-I/O: from the session's requests to client events, from server events to ours.

Source: https://platform.openai.com/docs/api-reference/realtime-server-events (GA).
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from typing import Any

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderProtocolError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import GenerateRequest, Usage
from vivavoce.pipelines.llm.chat_context import ChatItem, FunctionCallOutput
from vivavoce.pipelines.llm.tools import Tool, ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.realtime_model.base import (
    NOT_RUN,
    RealtimeEvent,
    RealtimeInputCommitted,
    RealtimeProblem,
    RealtimeReplyCancelled,
    RealtimeReplyStarted,
    RealtimeSetup,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
)
from vivavoce.plugins.openai import realtime_messages as messages
from vivavoce.plugins.openai.realtime_answer import RealtimeAnswer
from vivavoce.plugins.openai.realtime_messages import RATE, Message
from vivavoce.plugins.openai.realtime_options import PREFIX_PADDING, RealtimeOptions, ServerVAD
from vivavoce.plugins.openai.wire import PROVIDER, protocol_error, text_of

logger = logging.getLogger(__name__)

MIN_COMMIT = 0.1
"""Seconds of audio that the server needs for a commit."""

HARMLESS = frozenset({"response_cancel_not_active"})
"""An answer ended on its own while we cancelled it."""

FATAL = frozenset({"insufficient_quota", "invalid_api_key", "billing_hard_limit_reached", "account_deactivated"})
EXPIRED = "session_expired"

TRANSCRIPTION = "conversation.item.input_audio_transcription."


class RealtimeWire:
    """One connection's conversation.

    Args:
        post: Sends a client event, in order.
        report: Called with events for the session.
        failures: Makes the errors.
    """

    def __init__(
        self,
        setup: RealtimeSetup,
        options: RealtimeOptions,
        *,
        post: Callable[[Message], None],
        report: Callable[[RealtimeEvent], None],
        failures: Failures,
    ) -> None:
        self._setup = setup
        self._options = options
        self._post = post
        self._report = report
        self._failures = failures
        self._instructions = setup.instructions
        self._tools: Sequence[Tool[..., object]] = setup.tools
        self._answers: dict[str, RealtimeAnswer] = {}
        self._asked: dict[str, RealtimeAnswer] = {}
        self._waiting: dict[str, RealtimeAnswer] = {}
        self._transcripts: dict[str, str] = {}
        self._pushed = 0.0
        self._uncommitted = 0.0
        self._committed_item = ""
        self.items: set[str] = set()
        """Ids of items that can be removed from the conversation: the user's audio, appended items, answers."""
        self.is_ready = False
        """Whether the settings of the connection are in force."""

    # requests of the session

    def begin(self, model: str) -> None:
        """Send the history and the settings; `is_ready` once the server has accepted both."""
        for item in messages.history_items(self._setup.history):
            self._post(messages.create_item(item))
        self._post(messages.session_update(model, self._setup, self._options))

    def push(self, frame: AudioFrame) -> None:
        """Take the user's next frame."""
        self._pushed += frame.duration
        self._uncommitted += frame.duration
        self._post({"type": messages.AUDIO, "audio": base64.b64encode(frame.data).decode("ascii")})

    def commit(self) -> None:
        """End the user's turn; if its audio is too short for the server, silence is added."""
        if (missing := MIN_COMMIT - self._uncommitted) > 0:
            self.push(AudioFrame.silence(missing + 1 / RATE, RATE))
        self._uncommitted = 0.0
        self._post({"type": "input_audio_buffer.commit"})

    def clear(self) -> None:
        """Forget the open turn's audio."""
        self._uncommitted = 0.0
        self._post({"type": "input_audio_buffer.clear"})

    def append(self, item: ChatItem) -> None:
        """Add to the conversation."""
        new = messages.new_items(item)
        if len(new) == 1:  # under its own name, by which it can be removed
            new[0]["id"] = item.id
            self.items.add(item.id)
        for one in new:
            self._post(messages.create_item(one))

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """Change standing instructions and tools."""
        self._instructions, self._tools = instructions, tools
        self._post(messages.instructions_update(instructions, tools))

    def cancelling(self) -> list[RealtimeAnswer]:
        """Return the answers that were cancelled and that the server has not ended yet."""
        known = {id(one): one for one in (*self._asked.values(), *self._answers.values())}
        return [one for one in known.values() if one.is_cancelled and not one.is_over and not one.is_aside]

    def ask(self, request: GenerateRequest) -> RealtimeAnswer:
        """Request an answer to the conversation."""
        answer = self._asked_answer(is_aside=False)
        self._post(messages.ask(request, self._instructions, self._tools, answer.ask_id))
        return answer

    def say(self, text: str) -> RealtimeAnswer:
        """Request a text to be spoken, beside the conversation."""
        answer = self._asked_answer(is_aside=True)
        self._post(messages.ask_to_say(text, answer.ask_id))
        return answer

    def accept(self, reply_id: str) -> RealtimeAnswer:
        """Return an answer that the server began.

        Raises:
            KeyError: There is no such answer.
        """
        return self._waiting.pop(reply_id)

    def refuse(self, reply_id: str) -> None:
        """Cancel an answer that the server began, and remove it from the conversation."""
        answer = self._waiting.pop(reply_id, None)
        if answer is not None:
            answer.refuse()
            if answer.is_over:
                self._delete(answer)
            else:
                self.give_up(answer)

    def give_up(self, answer: RealtimeAnswer) -> None:
        """Cancel an answer that nobody reads any more, unless it is over or cancelled already."""
        self._not_run(answer.take_unread_calls())
        if answer.is_over or answer.is_cancelled:
            return
        answer.cancel()
        if answer.response_id:  # else once the server begins it
            self._post({"type": "response.cancel", "response_id": answer.response_id})

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Cut an answer to its heard part."""
        for answer in list(self._answers.values()):
            if item_id in answer.item_ids:
                self.give_up(answer)
        milliseconds = int(played_seconds * 1000)
        if self._setup.answers == "audio" and milliseconds > 0:
            where = {"item_id": item_id, "content_index": 0, "audio_end_ms": milliseconds}
            self._post({"type": "conversation.item.truncate", **where})
            return
        if self._setup.answers == "text" and heard_text.strip():  # the server cuts audio only
            self._post(messages.create_item(messages.heard_item(heard_text), item_id))
        self._post(messages.delete_item(item_id))

    def lose(self, error: ProviderError) -> None:
        """The connection is lost: no answer will come any more."""
        for answer in (*self._asked.values(), *self._answers.values()):
            answer.fail(error)

    # events of the server

    def feed(self, data: str | bytes) -> None:
        """Take one frame.

        Raises:
            ProviderError: The connection cannot be used any more.
        """
        try:
            event = json_object(data, self._failures)
            kind = event.get("type")
            if not isinstance(kind, str):
                raise protocol_error("an event with a type", type(kind).__name__)
            self._take(kind, event)
        except ProviderProtocolError as error:  # this event is lost, and the next may be valid
            self._report(RealtimeProblem(error))

    def _take(self, kind: str, event: dict[str, Any]) -> None:
        if kind.startswith("response."):
            self._take_answer(kind, event)
        elif kind.startswith(TRANSCRIPTION):
            self._take_transcript(kind.removeprefix(TRANSCRIPTION), event)
        elif kind == "input_audio_buffer.speech_started":
            self._report(RealtimeSpeechStarted(self._ago(event.get("audio_start_ms"), PREFIX_PADDING)))
        elif kind == "input_audio_buffer.speech_stopped":
            detection = self._options.turn_detection
            silence = detection.silence if isinstance(detection, ServerVAD) else 0.0
            self._report(RealtimeSpeechEnded(self._ago(event.get("audio_end_ms"), -silence)))
        elif kind == "input_audio_buffer.committed":
            self._uncommitted = 0.0
            self._committed_item = text_of(event.get("item_id"), "item_id")
            self.items.add(self._committed_item)
            self._report(RealtimeInputCommitted(self._committed_item))
        elif kind == "session.updated":
            self.is_ready = True
        elif kind == "error":
            self._take_error(event.get("error"))

    def _take_answer(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "response.created":
            self._created(event.get("response"))
            return
        response = event.get("response")
        id_there = response.get("id") if isinstance(response, dict) else event.get("response_id")
        answer = self._answers.get(text_of(id_there, "response_id"))
        if answer is None:
            logger.debug("openai: %s of an answer that is not known", kind)
            return
        if kind in ("response.output_audio_transcript.delta", "response.output_text.delta"):
            answer.add_text(event)
        elif kind == "response.output_audio.delta":
            answer.add_audio(event)
        elif kind == "response.output_item.added":
            answer.add_item(event.get("item"))
            self.items.update(answer.item_ids)
        elif kind == "response.output_item.done":
            answer.finish_item(event.get("item"))
        elif kind == "response.done":
            self._finished(answer, response if isinstance(response, dict) else {})

    def _created(self, response: Any) -> None:
        if not isinstance(response, dict):
            raise protocol_error("a response", type(response).__name__)
        response_id = text_of(response.get("id"), "id")
        metadata = response.get("metadata")
        ask_id = text_of(metadata.get("ask"), "ask") if isinstance(metadata, dict) else ""
        answer = self._asked.pop(ask_id, None)
        is_remote = answer is None
        answer = answer or RealtimeAnswer()
        answer.begin(response_id)
        self._answers[response_id] = answer
        if answer.is_cancelled:
            self._post({"type": "response.cancel", "response_id": response_id})
        if is_remote:
            self._waiting[response_id] = answer
            self._report(RealtimeReplyStarted(response_id, self._committed_item))

    def _finished(self, answer: RealtimeAnswer, response: dict[str, Any]) -> None:
        del self._answers[answer.response_id]
        details = response.get("status_details")
        details = details if isinstance(details, dict) else {}
        status, reason = text_of(response.get("status"), "status"), text_of(details.get("reason"), "reason")
        usage = usage_of(response.get("usage"))
        if answer.is_cancelled and usage is not None:
            self._report(usage)
        if status == "failed":
            answer.fail(self._failure(details.get("error")))
        else:
            was_ours = answer.is_cancelled
            answer.finish(status, "cancelled" if status == "cancelled" else reason, usage)
            if status == "cancelled" and not was_ours:
                self._report(RealtimeReplyCancelled("" if answer.ask_id else answer.response_id))
        if answer.is_unwanted:
            self._delete(answer)
        else:
            self._not_run(answer.take_left_calls())

    def _not_run(self, calls: Sequence[ToolCall]) -> None:
        for call in calls:
            output = FunctionCallOutput(call_id=call.call_id, name=call.name, output=NOT_RUN, is_error=True)
            for item in messages.new_items(output):
                self._post(messages.create_item(item))

    def _delete(self, answer: RealtimeAnswer) -> None:
        for item_id in answer.item_ids:
            self._post(messages.delete_item(item_id))

    def _take_transcript(self, kind: str, event: dict[str, Any]) -> None:
        item_id = text_of(event.get("item_id"), "item_id")
        if kind == "delta":
            text = self._transcripts.get(item_id, "") + text_of(event.get("delta"), "delta")
            self._transcripts[item_id] = text
            self._report(RealtimeTranscript(text=text, item_id=item_id, is_final=False))
        elif kind in ("completed", "failed"):
            self._transcripts.pop(item_id, None)
            text = text_of(event.get("transcript"), "transcript")
            self._report(RealtimeTranscript(text=text, item_id=item_id, is_final=True))
            if kind == "failed":
                self._report(RealtimeProblem(self._failure(event.get("error"))))
            elif (usage := usage_of(event.get("usage"))) is not None:
                self._report(usage)

    def _take_error(self, error: Any) -> None:
        error = error if isinstance(error, dict) else {}
        code, message = error.get("code") or error.get("type"), error.get("message")
        if code == EXPIRED:
            raise ProviderConnectionError("the session reached its longest duration", provider=PROVIDER)
        failure = self._failure(error)
        asked = self._asked.pop(str(error.get("event_id")), None)
        if asked is not None:
            asked.fail(failure)
        if code in FATAL:
            raise failure
        if not self.is_ready and error.get("param", "") and str(error.get("param")).startswith("session"):
            raise failure
        if asked is None and code not in HARMLESS:
            logger.debug("openai: the server refused an event: %s", self._failures.redact(message))
            self._report(RealtimeProblem(failure))

    def _failure(self, error: Any) -> ProviderError:
        error = error if isinstance(error, dict) else {}
        code = error.get("code") or error.get("type")
        if code == "conversation_already_has_active_response":
            return ProviderError("an answer is still going on", provider=PROVIDER, retryable=True)
        return self._failures.in_answer(code, error.get("message"))

    def _asked_answer(self, *, is_aside: bool) -> RealtimeAnswer:
        answer = RealtimeAnswer(new_id("ask"), is_aside=is_aside)
        self._asked[answer.ask_id] = answer
        return answer

    def _ago(self, at_ms: object, shift: float) -> float:
        """Return the seconds from a time of the server to the newest sample pushed."""
        if not isinstance(at_ms, int | float):
            return 0.0
        return max(0.0, self._pushed - (at_ms / 1000 + shift))


def usage_of(usage: Any) -> Usage | None:
    """Return the usage of an answer or a transcript, if it is given in tokens."""
    if not isinstance(usage, dict) or "input_tokens" not in usage:
        return None
    return Usage(
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        cached_tokens=_count(usage, "input_token_details", "cached_tokens"),
        input_audio_tokens=_count(usage, "input_token_details", "audio_tokens"),
        output_audio_tokens=_count(usage, "output_token_details", "audio_tokens"),
        cached_audio_tokens=_count(usage, "input_token_details", "cached_tokens_details", "audio_tokens"),
    )


def _count(usage: Any, *path: str) -> int:
    """Return a count of nested objects; 0 where it is missing."""
    for key in path:
        usage = usage.get(key) if isinstance(usage, dict) else None
    return usage if isinstance(usage, int) else 0
