"""Answer: one answer of the model, as its pieces come from the server."""

from __future__ import annotations

import anyio

from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import Done, LLMEvent, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import AudioChunk


class Answer:
    """One answer of the model, as it comes."""

    def __init__(self) -> None:
        self.reply_id = ""
        """Its name if the server began it."""
        self.item_id = new_id("item")
        self.feed: Feed[LLMEvent | AudioChunk] = Feed()
        self.over = anyio.Event()
        self.has_begun = False
        """Whether the server has sent a part of it; of a requested one, since the request."""
        self.is_cancelled = False
        """It was cancelled here: the rest of it is dropped."""
        self.has_calls = False
        """Whether it has called tools."""
        self.usage: Usage | None = None

    @property
    def is_over(self) -> bool:
        """Whether the server has ended it."""
        return self.over.is_set()

    def begin(self, *, is_remote: bool) -> None:
        """The server began it, or it is requested: words that came before, behind a call, do not answer that."""
        self.reply_id, self.has_begun = new_id("reply") if is_remote else "", False

    def cancel(self) -> None:
        """Cancel it here: its stream ends, and the rest of it is dropped."""
        self.is_cancelled = True
        self.feed.end()

    def take_usage(self, usage: Usage) -> None:
        """Keep its usage for its end."""
        self.usage = usage

    def put(self, item: LLMEvent | AudioChunk) -> None:
        """Add to its stream, unless it was cancelled."""
        self.has_begun = True
        self.has_calls = self.has_calls or isinstance(item, ToolCall)
        if not self.is_cancelled:
            self.feed.put(item)

    def finish(self, reason: str) -> None:
        """The server has ended it."""
        if self.usage is not None:
            self.put(self.usage)
        self.put(Done(reason))
        self.feed.end()
        self.over.set()
