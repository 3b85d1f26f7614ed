"""Connection: one websocket, on which any number of contexts speak side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.pipelines.net.sockets import Message, Socket, open_socket
from vivavoce.plugins.cartesia import wire
from vivavoce.plugins.cartesia.wire import PROVIDER, Audio, Done, Failed, Words

PATH = "tts/websocket"

LIVES_FOR = 0.5
"""Seconds after its last audio in which a context gets more text. The server ends it after one second, and the text is
on its way for a part of that.
"""


class Context:
    """One stretch of speech.

    Args:
        post: Sends a message.
        forget: Called once, at its end.
        fields: The settings of its requests.
        limit: Seconds in which the server answers a text.
    """

    def __init__(
        self, post: Callable[[str], object], forget: Callable[[str], object], fields: Mapping[str, Any], limit: float
    ) -> None:
        self.id = new_id("context")
        self.text = ""
        """All of its text so far, of which no error may quote."""
        self._post = post
        self._forget = forget
        self._fields = fields
        self._limit = limit
        self._clock: Clock = LoopClock()
        self._events: deque[Audio | Words] = deque()
        self._changed = asyncio.Event()
        self._is_complete = False
        self._is_over = False
        self._error: ProviderError | None = None
        self._is_due = False
        """Whether the server has not answered the last text with audio."""
        self._heard_at = 0.0

    @property
    def takes_text(self) -> bool:
        """Whether more text belongs here: the server still knows it."""
        if self._is_complete or self._is_over:
            return False
        return self._is_due or self._clock.now() - self._heard_at < LIVES_FOR

    def say(self, text: str, *, is_last: bool = False) -> None:
        """Speak this behind the earlier text."""
        self.text += text
        self._is_due, self._is_complete = True, is_last
        self._post(wire.speak(self._fields, self.id, text, is_last=is_last))
        self._changed.set()

    def finish(self) -> None:
        """Tell the server that no more text comes."""
        if not self._is_complete and not self._is_over:
            self.say("", is_last=True)

    def cancel(self) -> None:
        """End it at the server too; its late audio is dropped."""
        if not self._is_over:
            self._post(wire.cancel(self.id))
            self.end(None)

    def take(self, event: Audio | Words) -> None:
        """Take an event of the server."""
        if isinstance(event, Audio):
            self._heard_at = self._clock.now()
            self._is_due = self._is_complete
        self._events.append(event)
        self._changed.set()

    def end(self, error: ProviderError | None) -> None:
        """End it; a second end changes nothing."""
        if not self._is_over:
            self._is_over, self._error = True, error
            self._changed.set()
            self._forget(self.id)

    async def next(self) -> Audio | Words | None:
        """Return the next event; None at the end.

        Raises:
            ProviderError: It failed, or the server is silent for too long.
        """
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return None
            self._changed.clear()
            if not await self._waited(self._limit if self._is_due else None):
                text = f"the server took too long: nothing for {self._limit} s"
                raise ProviderTimeoutError(text, provider=PROVIDER)
        return self._events.popleft()

    async def _waited(self, limit: float | None) -> bool:
        try:
            async with asyncio.timeout(limit):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


class Connection:
    """Sends the requests of its contexts, and gives each the events with its id; others are of a context that is over.

    Args:
        client: Connects.
        refused: What to do about a request that is refused, by status.
    """

    def __init__(self, client: Client, refused: Mapping[int, str], wrong_key: str) -> None:
        self._client = client
        redact = Redaction(client.secrets, self._said)
        remedies = {401: wrong_key}
        self._handshake = Failures(provider=PROVIDER, redact=redact, remedies=remedies)
        self._failures = Failures(provider=PROVIDER, redact=redact, remedies={**remedies, **refused})
        self._contexts: dict[str, Context] = {}
        self._socket: Socket | None = None

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be used any more."""
        return self._socket is None or self._socket.is_lost

    async def open(self) -> None:
        """Connect.

        Raises:
            ProviderError: It cannot connect.
        """
        self._socket = await open_socket(
            self._client,
            PATH,
            (),
            self._handshake,
            on_message=self._on_message,
            on_lost=self._end,
            component="tts",
        )
        self._socket.start()

    def begin(self, fields: Mapping[str, Any]) -> Context:
        """Return a new context.

        Args:
            fields: The settings of its requests.
        """
        context = Context(self._post, self._contexts.pop, fields, self._client.options.read_timeout)
        self._contexts[context.id] = context
        if self.is_lost:
            context.end(ProviderConnectionError("the connection was lost", provider=PROVIDER))
        return context

    async def aclose(self) -> None:
        """Close it; contexts that still speak fail. Calling it twice is fine."""
        if self._socket is not None:
            await self._socket.aclose()
        self._end(ProviderConnectionError("the voice was closed", provider=PROVIDER, retryable=False))

    def _post(self, message: str) -> None:
        if self._socket is not None:
            self._socket.post(message)

    def _said(self) -> list[str]:
        return [context.text for context in self._contexts.values()]

    def _on_message(self, message: Message) -> None:
        event = wire.event(message, self._failures)
        if isinstance(event, Failed) and not event.context:
            self._end(event.error)
            return
        context = self._contexts.get(event.context) if event is not None else None
        if context is None:
            return
        if isinstance(event, Audio | Words):
            context.take(event)
        elif isinstance(event, Done):
            context.end(None)
        elif isinstance(event, Failed):
            context.end(event.error)

    def _end(self, error: ProviderError) -> None:
        for context in list(self._contexts.values()):
            context.end(error)
