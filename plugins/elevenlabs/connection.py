"""Connection: one websocket, on which up to five contexts speak side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.net.client import Client, Query
from vivavoce.pipelines.net.sockets import Message
from vivavoce.pipelines.tts.contexts import ContextConnection, SpeechContext
from vivavoce.plugins.elevenlabs import wire
from vivavoce.plugins.elevenlabs.client import PROVIDER, failures_of
from vivavoce.plugins.elevenlabs.wire import Audio, Done, Failed, WordTimes

LIVES_FOR = 150.0
"""Seconds after its last text or audio in which a context gets more text; the server ends it 180 s after its last
text."""

END_LIMIT = 30.0
"""Seconds in which the server ends a context that was cut: it says what it has begun."""

CLOSE_LIMIT = 1.0


class Context(SpeechContext):
    """One stretch of speech.

    Args:
        post: Sends a message.
        fields: The message that begins it, without its id.
        rate: Hz of the audio.
    """

    def __init__(
        self,
        post: Callable[[str], object],
        forget: Callable[[str], object],
        fields: Mapping[str, Any],
        rate: int,
        limit: float,
    ) -> None:
        super().__init__(PROVIDER, forget, limit)
        self._post = post
        self._times = WordTimes(rate)
        self._post(wire.begin(fields, self.id))

    def hear(self, audio: Audio) -> None:
        """Take a message of the server with audio."""
        if words := self._times.take(audio):
            self.take(words)
        self.take(audio.data)

    def complete(self) -> None:
        """Note that the server has said all of it."""
        if words := self._times.finish():
            self.take(words)
        self.end(None)

    def _send_text(self, text: str) -> None:
        self._post(wire.speak(self.id, text))

    def _send_end(self) -> None:
        self._post(wire.close(self.id))

    def _send_cancel(self) -> None:
        if not self._is_complete:
            self._post(wire.close(self.id))

    def _lives_on(self, idle: float) -> bool:
        return idle < LIVES_FOR


class Connection(ContextConnection[Context]):
    """Sends the requests of its contexts, and knows which of them the server has not ended.

    Args:
        asked: What was asked for and what there is, for errors.
        normalized: As for `wire.event()`.
    """

    def __init__(self, client: Client, path: str, query: Query, *, asked: str, normalized: bool) -> None:
        self._failures = failures_of(client, asked=asked, said=self._said)
        super().__init__(client, path, query, self._failures)
        self._normalized = normalized
        self._speaking: set[str] = set()
        """The ids of contexts that the server has not ended; it ends the connection with the sixth one."""
        self._changed = asyncio.Event()
        self._is_refused = False
        self._tasks = OwnedTasks("elevenlabs connection")

    @property
    def is_lost(self) -> bool:
        return self._is_refused or super().is_lost

    def begin(self, fields: Mapping[str, Any], rate: int) -> Context:
        """Return a new context.

        Args:
            fields: The message that begins it, without its id.
        """
        limit = self._client.options.read_timeout
        context = self._add(Context(self._post, self._contexts.pop, fields, rate, limit))
        self._speaking.add(context.id)
        return context

    def is_speaking(self, contexts: Sequence[Context]) -> bool:
        """Whether the server has not ended one of these contexts."""
        return not self.is_lost and any(context.id in self._speaking for context in contexts)

    def keep_until_over(self, lease: AsyncExitStack, contexts: Sequence[Context]) -> None:
        """Close a lease of this connection when the server has ended these contexts: they count until then."""
        self._tasks.start(self._release(lease, contexts), "cut contexts")

    async def aclose(self) -> None:
        await super().aclose()
        self._tasks.cancel()
        await self._tasks.finish(CLOSE_LIMIT)

    async def _release(self, lease: AsyncExitStack, contexts: Sequence[Context]) -> None:
        async with lease:
            try:
                async with asyncio.timeout(END_LIMIT):
                    while self.is_speaking(contexts):
                        self._changed.clear()
                        await self._changed.wait()
            except TimeoutError:
                self._is_refused = True  # how many contexts it has room for is unknown

    def _take(self, message: Message) -> None:
        event = wire.event(message, self._failures, normalized=self._normalized)
        if isinstance(event, Failed):
            self._fail(event)
        elif isinstance(event, Done):
            self._speaking.discard(event.context)
            self._changed.set()
            if (context := self._contexts.get(event.context)) is not None:
                context.complete()
        elif isinstance(event, Audio) and (context := self._contexts.get(event.context)) is not None:
            context.hear(event)

    def _fail(self, failed: Failed) -> None:
        if (context := self._contexts.get(failed.context)) is not None:
            self._speaking.discard(failed.context)
            context.end(failed.error)
        elif not failed.context:
            self._is_refused = True  # a close follows
            self._end(failed.error)
        self._changed.set()
