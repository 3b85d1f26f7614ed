"""RealtimeAnswer: one response of the Realtime API, and the stream of its pieces."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import anyio

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import Done, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins.openai.realtime_messages import RATE
from vivavoce.plugins.openai.wire import is_json, protocol_error, text_of


class RealtimeAnswer:
    """Takes the response's events and fills `feed`.

    Args:
        ask_id: Id of its request; empty for one that the server began.
        is_aside: Whether it is outside of the conversation, so that its pieces have no item id.
    """

    def __init__(self, ask_id: str = "", *, is_aside: bool = False) -> None:
        self.ask_id = ask_id
        self.is_aside = is_aside
        self.response_id = ""
        self.item_ids: list[str] = []
        self.feed: Feed[LLMEvent | AudioChunk] = Feed()
        self.over = anyio.Event()
        """The server has ended it."""
        self.is_cancelled = False
        """It was cancelled here: the rest of it is dropped."""
        self.is_unwanted = False
        """Its items are to be removed from the conversation."""
        self._calls: list[ToolCall] = []
        self._half_samples: dict[str, bytes] = {}

    @property
    def is_over(self) -> bool:
        """Whether the server has ended it."""
        return self.over.is_set()

    def begin(self, response_id: str) -> None:
        """The server has begun it."""
        self.response_id = response_id

    def cancel(self) -> None:
        """Cancel it here: its stream ends, and the rest of it is dropped."""
        self.is_cancelled = True
        self.feed.end()

    def refuse(self) -> None:
        """Mark its items for removal from the conversation."""
        self.is_unwanted = True

    def add_item(self, item: Any) -> None:
        """Note an item that it makes."""
        item_id = text_of(_get(item, "id"), "an item's id")
        if item_id and item_id not in self.item_ids:
            self.item_ids.append(item_id)

    def add_text(self, event: dict[str, Any]) -> None:
        """Add words: of a transcript, or of a written answer."""
        if text := text_of(event.get("delta"), "delta"):
            self._put(TextDelta(text, "" if self.is_aside else text_of(event.get("item_id"), "item_id")))

    def add_audio(self, event: dict[str, Any]) -> None:
        """Add audio; half a sample waits for its other half."""
        item_id = text_of(event.get("item_id"), "item_id")
        try:
            pcm = base64.b64decode(text_of(event.get("delta"), "delta"), validate=True)
        except binascii.Error:
            raise protocol_error("audio in base64", "something else") from None
        pcm = self._half_samples.pop(item_id, b"") + pcm
        if rest := len(pcm) % BYTES_PER_SAMPLE:
            pcm, self._half_samples[item_id] = pcm[:-rest], pcm[-rest:]
        if pcm:
            self._put(AudioChunk(AudioFrame(pcm, RATE), item_id="" if self.is_aside else item_id))

    def finish_item(self, item: Any) -> None:
        """Add a whole item: calls are passed on once the answer is whole."""
        self.add_item(item)
        if _get(item, "type") == "function_call":
            name, call_id = text_of(_get(item, "name"), "name"), text_of(_get(item, "call_id"), "call_id")
            if not (name and call_id):
                raise protocol_error("a tool call with name and call_id", "one without")
            arguments = text_of(_get(item, "arguments"), "arguments")
            arguments = arguments if arguments.strip() else "{}"
            self._calls.append(ToolCall(call_id=call_id, name=name, arguments=arguments))

    def finish(self, status: str, reason: str, usage: Usage | None) -> None:
        """The server has ended it without a failure."""
        calls = [] if self.is_cancelled else self._calls
        for call in [call for call in calls if status == "completed" or is_json(call.arguments)]:
            self._put(call)
            self._calls.remove(call)
        if usage is not None:
            self._put(usage)
        self._put(Done(reason or ("cancelled" if status == "cancelled" else "stop")))
        self._end(None)

    def fail(self, error: ProviderError) -> None:
        """It has failed, or will never come."""
        self._end(error)

    def take_left_calls(self) -> list[ToolCall]:
        """Return, once, the calls that its stream does not yield; it is over."""
        left, self._calls = self._calls, []
        return left

    def take_unread_calls(self) -> list[ToolCall]:
        """Return, once, the calls that its stream has not yielded; its reader has gone."""
        return [item for item in self.feed.take_unread() if isinstance(item, ToolCall)]

    def _put(self, item: LLMEvent | AudioChunk) -> None:
        if not self.is_cancelled:
            self.feed.put(item)

    def _end(self, error: ProviderError | None) -> None:
        self.feed.end(error)
        self.over.set()


def _get(item: Any, name: str) -> object:
    return item.get(name) if isinstance(item, dict) else None
