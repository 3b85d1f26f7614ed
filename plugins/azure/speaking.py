"""Connection: one websocket of a voice, which carries one turn at a time; Turn: one stretch of speech on it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.sockets import Message, Socket
from vivavoce.pipelines.tts.base import Word
from vivavoce.plugins.azure.client import AzureComponent
from vivavoce.plugins.azure.synthesis import STOP, SpokenWords, end_frame, piece_frame, ssml_frame
from vivavoce.plugins.azure.wire import PROVIDER, Frame, new_request, read_frame, speech_config, text_frame

Event = bytes | tuple[Word, ...]
"""A piece of audio, or words at the times of their turn."""


class Turn:
    """One stretch of speech.

    Args:
        post: Sends a message.
        limit: Seconds in which the service answers a text that is complete.
    """

    def __init__(self, post: Callable[[str], object], limit: float) -> None:
        self.request = new_request()
        self.text = ""
        """All of its text so far, of which no error may quote."""
        self.is_over = False
        self._post = post
        self._limit = limit
        self._words = SpokenWords()
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_complete = False
        self._error: ProviderError | None = None

    def say(self, text: str) -> None:
        """Speak this behind the earlier text."""
        self._add(text)
        self._post(piece_frame(self.request, text))

    def finish(self) -> None:
        """Tell the service that no more text comes."""
        if not self._is_complete and not self.is_over:
            self._is_complete = True
            self._post(end_frame(self.request))
            self._changed.set()

    def document(self, text: str, ssml: str) -> None:
        """Speak this, and nothing else."""
        self._add(text)
        self._is_complete = True
        self._post(ssml_frame(self.request, ssml))

    def stop(self) -> None:
        """Ask the service to end it."""
        if not self.is_over:
            self._events.clear()
            self._post(text_frame("synthesis.control", STOP, request=self.request))

    def take(self, frame: Frame, failures: Failures) -> None:
        """Take a message of the service.

        Raises:
            ProviderProtocolError: It breaks the protocol.
        """
        if frame.path == "audio" and isinstance(frame.body, bytes) and frame.body:
            self._put(frame.body)
        elif frame.path == "audio.metadata" and (words := self._words.take(frame, failures)):
            self._put(words)
        elif frame.path == "turn.end":
            self.end(None)

    def end(self, error: ProviderError | None) -> None:
        """End it; a second end changes nothing."""
        if not self.is_over:
            self.is_over, self._error = True, error
            self._changed.set()
            self._ended.set()

    async def ended(self, limit: float) -> bool:
        """Wait for its end; return whether it came in time."""
        try:
            async with asyncio.timeout(limit):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    async def next(self) -> Event | None:
        """Return the next event; None at the end.

        Raises:
            ProviderError: It failed, or the service is silent for too long.
        """
        while not self._events:
            if self._error is not None:
                raise self._error
            if self.is_over:
                return None
            self._changed.clear()
            try:
                async with asyncio.timeout(self._limit if self._is_complete else None):
                    await self._changed.wait()
                continue
            except TimeoutError:
                text = f"the server took too long: nothing for {self._limit} s"
            raise ProviderTimeoutError(text, provider=PROVIDER)
        return self._events.popleft()

    def _add(self, text: str) -> None:
        self.text += text
        self._words.add(text)

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self._changed.set()


class Connection:
    """Gives its turn the messages with its id; others are of a turn that is over.

    Args:
        server: Connects.
        asked: For errors.
        limit: As a turn's.
    """

    def __init__(self, server: AzureComponent, query: list[tuple[str, str]], asked: str, limit: float) -> None:
        self._server = server
        self._query = query
        self._asked = asked
        self._limit = limit
        self._failures = Failures(provider=PROVIDER)
        self._socket: Socket | None = None
        self._turn: Turn | None = None

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be used any more."""
        return self._socket is None or self._socket.is_lost

    async def open(self) -> None:
        """Connect.

        Raises:
            ProviderError: It cannot connect.
        """
        self._socket, self._failures = await self._server.connect(
            self._query, self._on_message, self._end, asked=self._asked, said=self._said, component="tts"
        )
        self._socket.post(speech_config())
        self._socket.start()

    def begin(self, context: str) -> Turn:
        """Return a new turn; the one before is over.

        Args:
            context: The body of its `synthesis.context`.
        """
        assert self._turn is None or self._turn.is_over, "one turn at a time"
        turn = self._turn = Turn(self._post, self._limit)
        if self.is_lost:
            turn.end(ProviderConnectionError("the connection was lost", provider=PROVIDER))
        self._post(text_frame("synthesis.context", context, request=turn.request))
        return turn

    async def aclose(self) -> None:
        """Close it; a turn that still speaks fails. Calling it twice is fine."""
        if self._socket is not None:
            await self._socket.aclose()
        self._end(ProviderConnectionError("the voice was closed", provider=PROVIDER, retryable=False))

    def _post(self, message: str) -> None:
        if self._socket is not None:
            self._socket.post(message)

    def _said(self) -> list[str]:
        return [self._turn.text] if self._turn is not None else []

    def _on_message(self, message: Message) -> None:
        frame = read_frame(message, self._failures)
        if self._turn is not None and frame.request == self._turn.request:
            self._turn.take(frame, self._failures)

    def _end(self, error: ProviderError) -> None:
        if self._turn is not None:
            self._turn.end(error)
