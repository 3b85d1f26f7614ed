"""Streamed answers of a language model: from server-sent events to those of the port."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import LLMEvent
from vivavoce.pipelines.net.client import Response
from vivavoce.pipelines.net.streams import ServerEvent, read_rest, sse

logger = logging.getLogger(__name__)


class AnswerReader(Protocol):
    """Turns the events of one answer into those of the port, sans-I/O."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has said why the answer ends; nothing of its content follows."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nothing of use follows."""
        ...

    def feed(self, event: ServerEvent) -> list[LLMEvent]:
        """Take the next event.

        Raises:
            ProviderError: It reports a failure, or breaks the protocol.
        """
        ...

    def finish(self) -> list[LLMEvent]:
        """Return the events that are known only at the end of the stream.

        Raises:
            ProviderError: The server did not end the answer.
        """
        ...


async def streamed_answer(response: Response, reader: AnswerReader) -> AsyncGenerator[LLMEvent, None]:
    """Yield the events of an answer. It stands if the connection fails behind its end.

    Raises:
        ProviderError: It failed, or broke off.
    """
    async with aclosing(sse(response)) as events:
        try:
            async for event in events:
                for item in reader.feed(event):
                    yield item
                if reader.is_over:
                    break
        except ProviderError as failure:
            if not reader.is_complete:
                raise
            provider = response.failures.provider
            logger.warning("%s: the connection failed after the end of an answer, which stands: %s", provider, failure)
        for item in reader.finish():
            yield item
        await read_rest(events)
