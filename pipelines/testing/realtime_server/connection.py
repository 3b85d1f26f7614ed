"""ServedConnection: one client's session, from its first event to its last."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

import anyio
from aiohttp import WSMsgType, web
from anyio.abc import TaskGroup

from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.testing.realtime_server.conversation import Conversation
from vivavoce.pipelines.testing.realtime_server.energy_gate import EnergyGate
from vivavoce.pipelines.testing.realtime_server.refusal import Refusal, needed
from vivavoce.pipelines.testing.realtime_server.response import Asking, Response
from vivavoce.pipelines.testing.realtime_server.script import (
    RATE,
    SAMPLE_BYTES,
    AnswerFault,
    AskedFor,
    Script,
    ScriptedWords,
)
from vivavoce.pipelines.testing.realtime_server.settings import Settings, modalities

MIN_COMMIT_MS = 100
"""Audio that a commit needs."""


class ServedConnection:
    """Receives client events and answers them as the service does.

    Args:
        on_event: Called with each client event.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        settings: Settings,
        script: Script,
        on_event: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.conversation = Conversation()
        self.received: list[dict[str, Any]] = []
        """Client events, oldest first; of audio events only their length (`bytes`)."""
        self.audio_ms = 0
        """Milliseconds of the user's audio so far."""
        self._socket = socket
        self._transport = transport
        self._script = script
        self._on_event = on_event
        self._tasks: TaskGroup | None = None
        self._buffer = b""
        self._bytes = 0
        self._committed = 0.0
        self._gate: EnergyGate | None = None
        self._gate_settings: dict[str, Any] | None = None
        self._next_item = new_id("item")
        self._active: Response | None = None
        self._is_mute = False

    async def run(self) -> None:
        """Serve until the client leaves or a fault ends it."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await self.send("session.created", session=self.settings.session)
            async for message in self._socket:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    await self._take(message.data)
            tasks.cancel_scope.cancel()

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a server event, unless the connection is mute or over."""
        await self.send_raw(json.dumps({"type": kind, "event_id": new_id("event"), **fields}))

    async def send_raw(self, text: str) -> None:
        """Send a frame unchanged, unless the connection is mute or over."""
        if self._is_mute or self._socket.closed:
            return
        try:
            await self._socket.send_str(text)
        except ConnectionError:  # the client has left without a close
            return

    def stall(self) -> None:
        """Send nothing from now on; the connection stays."""
        self._is_mute = True

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the websocket."""
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """Cut the connection without a close frame."""
        if self._transport is not None:
            self._transport.abort()

    async def expire(self) -> None:
        """End the session as the service does at its maximum duration."""
        error = Refusal("Your session hit the maximum duration of 60 minutes.", code="session_expired").error(None)
        await self.send("error", error=error)
        await self.close(1001, "session expired")

    async def _take(self, data: str | bytes) -> None:
        event_id = None
        try:
            try:
                event = json.loads(data)
            except ValueError:
                raise Refusal("Failed to parse the event as JSON.", code="invalid_json") from None
            if not isinstance(event, dict):
                raise Refusal("An event must be a JSON object.", code="invalid_json")
            event_id = event.get("event_id")
            kind = needed(event, "type", str)
            self._note(event)
            handler = HANDLERS.get(kind)
            if handler is None:
                raise Refusal(f"Invalid value: '{kind}'.", code="invalid_value", param="type")
            await handler(self, event)
        except Refusal as refusal:
            await self.send("error", error=refusal.error(event_id))

    def _note(self, event: dict[str, Any]) -> None:
        kept = dict(event)
        if isinstance(audio := kept.pop("audio", None), str):
            kept["bytes"] = len(audio) * 3 // 4
        self.received.append(kept)
        self._on_event()

    async def _update_session(self, event: dict[str, Any]) -> None:
        session = self.settings.update(needed(event, "session", dict))
        await self.send("session.updated", session=session)

    # audio in

    async def _append(self, event: dict[str, Any]) -> None:
        try:
            pcm = base64.b64decode(needed(event, "audio", str), validate=True)
        except binascii.Error:
            raise Refusal("Invalid 'audio': not base64.", code="invalid_value", param="audio") from None
        self._bytes += len(pcm)
        self.audio_ms = _ms(self._bytes)
        self._buffer += pcm
        detection = self.settings.turn_detection
        if detection is None:
            self._gate = self._gate_settings = None
            return
        if self._gate is None or detection != self._gate_settings:
            silence = detection.get("silence_duration_ms", 500) / 1000
            start = _ms(self._bytes - len(pcm))
            self._gate = EnergyGate(threshold=detection.get("threshold", 0.5), silence=silence, start=start)
            self._gate_settings = detection
        for change in self._gate.push(pcm):
            if change.is_start:
                await self._speech_started(change.at_ms, detection)
            else:
                await self._speech_stopped(change.at_ms, detection)

    async def _speech_started(self, at_ms: int, detection: dict[str, Any]) -> None:
        padding = detection.get("prefix_padding_ms", 300)
        start = max(0, at_ms - padding)
        kept = max(0, self._bytes - start * RATE // 1000 * SAMPLE_BYTES)
        self._buffer = self._buffer[-kept:] if kept else b""
        await self.send("input_audio_buffer.speech_started", audio_start_ms=start, item_id=self._next_item)
        if detection["interrupt_response"] and self._active is not None and not self.settings.is_transcription:
            self._active.cancel("turn_detected")

    async def _speech_stopped(self, at_ms: int, detection: dict[str, Any]) -> None:
        await self.send("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, item_id=self._next_item)
        await self._commit_buffer()
        is_free = self._active is None or self._active.is_cancelled
        if detection["create_response"] and not self.settings.is_transcription and is_free:
            self._respond({})

    async def _commit(self, event: dict[str, Any]) -> None:
        if _ms(len(self._buffer)) < MIN_COMMIT_MS:
            raise Refusal(
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, but buffer "
                f"only has {_ms(len(self._buffer)):.2f}ms of audio.",
                code="input_audio_buffer_commit_empty",
            )
        await self._commit_buffer()

    async def _commit_buffer(self) -> None:
        seconds = _ms(len(self._buffer)) / 1000
        self._buffer = b""
        self._committed += seconds
        part: dict[str, Any] = {"type": "input_audio", "transcript": None}
        item = {
            "id": self._next_item,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [part],
        }
        self._next_item = new_id("item")
        previous = self.conversation.last_id
        await self.send("input_audio_buffer.committed", previous_item_id=previous, item_id=item["id"])
        self.conversation.add(item)
        await self.send("conversation.item.added", previous_item_id=previous, item=item)
        await self.send("conversation.item.done", previous_item_id=previous, item=item)
        words = self._script.hear()
        if self.settings.transcribes:
            self._spawn(self._transcribe, item["id"], part, words, seconds)

    async def _transcribe(self, item_id: str, part: dict[str, Any], words: ScriptedWords, seconds: float) -> None:
        await anyio.sleep(words.delay)
        kind, at = "conversation.item.input_audio_transcription", {"item_id": item_id, "content_index": 0}
        if words.failure:
            error = {"type": "transcription_error", "code": words.failure, "message": "Failed.", "param": None}
            await self.send(f"{kind}.failed", **at, error=error)
            return
        for number, word in enumerate(words.text.split(" ")):
            if word:
                await self.send(f"{kind}.delta", **at, delta=word if number == 0 else f" {word}")
        part["transcript"] = words.text
        usage = {"type": "duration", "seconds": seconds}
        await self.send(f"{kind}.completed", **at, transcript=words.text, usage=usage)

    async def _clear(self, event: dict[str, Any]) -> None:
        self._buffer = b""
        await self.send("input_audio_buffer.cleared")

    # items

    async def _create_item(self, event: dict[str, Any]) -> None:
        item, previous = self.conversation.take(needed(event, "item", dict), event.get("previous_item_id"))
        await self.send("conversation.item.added", previous_item_id=previous, item=item)
        await self.send("conversation.item.done", previous_item_id=previous, item=item)

    async def _retrieve_item(self, event: dict[str, Any]) -> None:
        await self.send("conversation.item.retrieved", item=self.conversation.find(needed(event, "item_id", str)))

    async def _truncate_item(self, event: dict[str, Any]) -> None:
        item_id, index = needed(event, "item_id", str), needed(event, "content_index", int)
        end_ms = needed(event, "audio_end_ms", int)
        self.conversation.truncate(item_id, end_ms)
        where = {"item_id": item_id, "content_index": index, "audio_end_ms": end_ms}
        await self.send("conversation.item.truncated", **where)

    async def _delete_item(self, event: dict[str, Any]) -> None:
        item_id = needed(event, "item_id", str)
        self.conversation.delete(item_id)
        await self.send("conversation.item.deleted", item_id=item_id)

    # answers

    async def _create_response(self, event: dict[str, Any]) -> None:
        if self.settings.is_transcription:
            raise Refusal("A transcription session has no responses.", code="invalid_value", param="type")
        given = event.get("response") or {}
        is_default = given.get("conversation", "auto") != "none"
        if is_default and self._active is not None and not self._active.is_cancelled:
            raise Refusal(
                f"Conversation already has an active response in progress: {self._active.id}. Wait until the response "
                "is finished before creating a new one.",
                code="conversation_already_has_active_response",
            )
        if "output_modalities" in given:
            modalities(given["output_modalities"], "response.output_modalities")
        self._respond(given)

    def _respond(self, given: dict[str, Any]) -> None:
        session = self.settings.session
        is_default = given.get("conversation", "auto") != "none"
        items = given["input"] if "input" in given else list(self.conversation)
        asked = AskedFor(
            instructions=given.get("instructions") or session["instructions"],
            items=tuple(dict(item) for item in items),
            tools=tuple(given["tools"] if given.get("tools") is not None else session["tools"] or ()),
            tool_choice=given.get("tool_choice") or session["tool_choice"],
            modality=(given.get("output_modalities") or session["output_modalities"])[0],
            metadata=given.get("metadata") or {},
        )
        asking = Asking(
            asked=asked,
            output={name: session["audio"]["output"][name] for name in ("format", "voice")},
            max_output_tokens=given.get("max_output_tokens") or session["max_output_tokens"],
            is_default=is_default,
            audio_seconds=self._committed,
        )
        response = Response(
            asking,
            self._script.answer(asked),
            self.conversation,
            send=self.send,
            speech=self._script.speech,
            fault=self._carry_out,
            after=self._active if is_default else None,
        )
        if is_default:
            self._active = response
        self._spawn(self._run_response, response)

    async def _run_response(self, response: Response) -> None:
        await response.run()
        if self._active is response:
            self._active = None

    async def _cancel_response(self, event: dict[str, Any]) -> None:
        if self._active is None or event.get("response_id") not in (None, self._active.id):
            raise Refusal("Cancellation failed: no active response found", code="response_cancel_not_active")
        self._active.cancel("client_cancelled")

    async def _carry_out(self, fault: AnswerFault) -> None:
        if fault is AnswerFault.CLOSE:
            self.abort()
        elif fault is AnswerFault.STALL:
            self.stall()
        elif fault is AnswerFault.MALFORMED:
            await self.send_raw('{"type": "response.output_audio.delta", "delta": ')
        elif fault is AnswerFault.EXPIRE:
            await self.expire()

    def _spawn(self, function: Any, *args: Any) -> None:
        assert self._tasks is not None, "run() comes first"
        self._tasks.start_soon(function, *args)


HANDLERS = {
    "session.update": ServedConnection._update_session,
    "input_audio_buffer.append": ServedConnection._append,
    "input_audio_buffer.commit": ServedConnection._commit,
    "input_audio_buffer.clear": ServedConnection._clear,
    "conversation.item.create": ServedConnection._create_item,
    "conversation.item.retrieve": ServedConnection._retrieve_item,
    "conversation.item.truncate": ServedConnection._truncate_item,
    "conversation.item.delete": ServedConnection._delete_item,
    "response.create": ServedConnection._create_response,
    "response.cancel": ServedConnection._cancel_response,
}


def _ms(count: int) -> int:
    return count * 1000 // (RATE * SAMPLE_BYTES)
