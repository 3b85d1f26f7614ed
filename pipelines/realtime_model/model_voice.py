"""ModelVoice: the voice of a model that speaks, for given texts and for answers whose words came without audio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import anyio

from vivavoce.pipelines.core.errors import UnvoicedError
from vivavoce.pipelines.core.retry import RetryOptions, report_retry
from vivavoce.pipelines.llm.base import Done, LLMEvent, TextDelta
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.realtime_model.reconnecting import ReconnectingModel
from vivavoce.pipelines.tts.base import AudioChunk


class ModelVoice:
    """Asks the model to say a text, and once more if it yields no audio of that and no error.

    Args:
        provider: The model's.
        can: The model's capabilities.
    """

    def __init__(self, model: ReconnectingModel, provider: str, can: RealtimeCapabilities) -> None:
        self._model = model
        self._provider = provider
        self._can = can

    async def say(
        self, text: str | AsyncIterator[str], retries: RetryOptions, *, is_second_try: bool = False
    ) -> AsyncGenerator[AudioChunk, None]:
        """Say a text as soon as it is whole; without audio it comes as `unvoiced`.

        Args:
            retries: Without a retry a text is asked for once only.
            is_second_try: Words of an answer that had no audio the first time.
        """
        whole, is_voiced = text if isinstance(text, str) else "".join([piece async for piece in text]), False
        has_words = any(map(str.isalnum, whole))
        if not is_second_try:
            async with aclosing(self._said(whole)) as chunks:
                async for chunk in chunks:
                    is_voiced = is_voiced or bool(chunk.frame.data)
                    yield chunk
        if is_voiced or not has_words:
            return
        if retries.waits:
            report_retry(UnvoicedError(whole, provider=self._provider), 1)
            await anyio.sleep(retries.waits[0])
            async with aclosing(self._said(whole)) as chunks:
                async for chunk in chunks:
                    is_voiced = is_voiced or bool(chunk.frame.data)
                    yield chunk
        if not is_voiced and not is_second_try:
            error = UnvoicedError(whole, provider=self._provider, tries=2 if retries.waits else 1)
            yield AudioChunk(AudioFrame(b"", self._can.output_rate), unvoiced=error)

    async def _said(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        connection = await self._model.live()
        with self._model.answering() as known:
            async with aclosing(connection.say(text)) as chunks:
                async for chunk in chunks:
                    known.add(chunk.item_id)
                    yield chunk

    async def voiced(
        self, answer: AsyncGenerator[LLMEvent | AudioChunk, None], retries: RetryOptions
    ) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Yield an answer of the model. If its words came without audio and without a call, they are removed from the
        remote conversation, and the model is asked to say them, but for an answer that its server has ended early.
        """
        text, is_silent, items = "", True, set[str]()
        end: Done | None = None
        async with aclosing(answer) as events:
            async for event in events:
                if isinstance(event, Done) and is_silent:
                    end = event
                    continue
                if isinstance(event, TextDelta):
                    text += event.text
                    items.add(event.item_id)
                elif isinstance(event, ToolCall) or (isinstance(event, AudioChunk) and event.frame.data):
                    is_silent = False
                yield event
        if end is None:
            return
        if end.reason != "cancelled" and any(map(str.isalnum, text)):
            self._forget(items)
        if end.reason == "stop":
            async with aclosing(self.say(text, retries, is_second_try=True)) as chunks:
                async for chunk in chunks:
                    yield chunk
        yield end

    def _forget(self, items: set[str]) -> None:
        """Remove unheard items of an answer from the remote conversation, if the model can do so."""
        connection = self._model.connection
        if connection is not None and self._can.truncates:
            for item_id in items & self._model.known:
                connection.truncate(item_id, 0.0, "")
            self._model.known.difference_update(items)
