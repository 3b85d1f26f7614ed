"""SpeechConnection: one websocket of Flux TTS, on which turns are spoken one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE
from vivavoce.pipelines.net.client import Client, Query
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.sockets import Message, Socket, open_socket
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.plugins.deepgram import speech_wire
from vivavoce.plugins.deepgram.client import PROVIDER
from vivavoce.plugins.deepgram.speech_wire import Interrupted, Spoken, Warned

logger = logging.getLogger(__name__)

PATH = "v2/speak"

LEAST_PLAYED = 0.001
"""Seconds by which an interruption must advance at least."""

HEARD_LIMIT = 2.0
"""Seconds in which the service answers an interruption."""


class Turn:
    """One speech.

    Args:
        post: Sends a message.
        interrupt: Ends the turn that was played for so many seconds; returns what was heard of it.
        limit: Seconds between two pieces of audio once all text is in.
    """

    def __init__(
        self,
        rate: int,
        post: Callable[[str], object],
        interrupt: Callable[[Turn, float], Awaitable[str | None]],
        limit: float,
    ) -> None:
        self.begin = 0.0
        """Seconds of the connection's audio before it."""
        self.seconds = 0.0
        """Of its audio so far."""
        self.is_over = False
        """Whether the service sends no more audio of it."""
        self.was_asked = asyncio.Event()
        """Set when its interruption is on its way."""
        self._rate = rate
        self._post = post
        self._interrupt = interrupt
        self._limit = limit
        self._audio: Feed[bytes] = Feed()
        self._came = asyncio.Event()
        self._is_flushed = False
        self._text = ""

    @property
    def text(self) -> str:
        """All of its text so far, of which no error may quote."""
        return self._text

    def say(self, text: str) -> None:
        """Speak this behind the earlier text."""
        self._text += text
        self._post(speech_wire.speak(text))

    def flush(self) -> None:
        """Note that all text is in; a turn without text is over."""
        self._is_flushed = True
        self._came.set()
        if self._text:
            self._post(speech_wire.FLUSH)
        else:
            self.end(None)

    def take(self, data: bytes, end: float) -> None:
        """Take audio.

        Args:
            end: Seconds of the connection's audio before it.
        """
        self.begin = self.begin if self.seconds else end
        self.seconds += len(data) / (BYTES_PER_SAMPLE * self._rate)
        self._audio.put(data)
        self._came.set()

    def end(self, error: ProviderError | None) -> None:
        """End it; a second end changes nothing."""
        self.is_over = True
        self._audio.end(error)
        self._came.set()

    async def heard(self, seconds: float) -> str | None:
        """Interrupt it; return what was heard of its text, or None if the service does not tell.

        Args:
            seconds: How much of it was played.
        """
        self.was_asked.set()
        return await self._interrupt(self, seconds)

    async def audio(self) -> AsyncGenerator[bytes, None]:
        """Yield the audio as it comes.

        Raises:
            ProviderError: It failed, or the server is silent for too long.
        """
        while True:
            for data in self._audio.take_unread():
                yield data
            if self._audio.has_ended:
                async for data in self._audio.items():
                    yield data
                return
            self._came.clear()
            try:
                async with asyncio.timeout(self._limit if self._is_flushed else None):
                    await self._came.wait()
                continue
            except TimeoutError:
                text = f"the server took too long: nothing for {self._limit} s"
            raise ProviderTimeoutError(text, provider=PROVIDER)


class SpeechConnection:
    """Speaks one turn at a time, and knows how much audio the service has sent over it.

    What it sends behind an interruption, up to its answer, is audio of the interrupted turn, and is dropped.

    Args:
        failures: Makes the errors.
    """

    def __init__(self, client: Client, query: Query, failures: Failures, rate: int) -> None:
        self._client = client
        self._query = query
        self._failures = failures
        self._rate = rate
        self._socket: Socket | None = None
        self._end = 0.0
        """Seconds of audio so far; the answer to an interruption sets it to what was played."""
        self._turn: Turn | None = None
        """The newest turn."""
        self._asked: asyncio.Future[str | None] | None = None
        """The interruption without an answer."""
        self._limit: asyncio.TimerHandle | None = None
        """Of its answer."""
        self._is_deaf = False

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be used any more."""
        return self._is_deaf or self._socket is None or self._socket.is_lost

    async def open(self) -> None:
        """Connect.

        Raises:
            ProviderError: It cannot connect.
        """
        self._socket = await open_socket(
            self._client,
            PATH,
            self._query,
            self._failures,
            on_message=self._on_message,
            on_lost=self._on_lost,
            component="tts",
        )
        self._socket.start()

    def begin(self) -> Turn:
        """Return a new turn; the one before is over, or is interrupted."""
        self._turn = Turn(self._rate, self._post, self._interrupt, self._client.options.read_timeout)
        if self.is_lost:
            self._turn.end(ProviderConnectionError("the connection was lost", provider=PROVIDER))
        return self._turn

    async def settled(self) -> None:
        """Wait until no interruption is without an answer, which has a limit."""
        if self._asked is not None:
            await asyncio.wait({self._asked})

    async def aclose(self) -> None:
        """Close it; a turn that still speaks fails. Calling it twice is fine."""
        if self._socket is not None:
            await self._socket.aclose(speech_wire.CLOSE)
        self._on_lost(ProviderConnectionError("the voice was closed", provider=PROVIDER, retryable=False))

    def _post(self, message: str) -> None:
        if self._socket is not None:
            self._socket.post(message)

    async def _interrupt(self, turn: Turn, seconds: float) -> str | None:
        if turn is not self._turn or not turn.seconds or self._asked is not None or self.is_lost:
            return None  # another speech has begun, or there is nothing to interrupt
        loop = asyncio.get_running_loop()
        asked: asyncio.Future[str | None] = loop.create_future()
        self._asked, self._limit = asked, loop.call_later(HEARD_LIMIT, self._give_up)
        self._post(speech_wire.interrupt(turn.begin + max(LEAST_PLAYED, seconds)))
        await asyncio.wait({asked})
        return asked.result()

    def _give_up(self) -> None:
        """Leave a connection that does not answer: it would take the next turn's audio for the interrupted one's."""
        self._is_deaf = True
        self._on_lost(ProviderConnectionError("the connection was lost: it answers no interruption", provider=PROVIDER))

    def _on_message(self, message: Message) -> None:
        turn = self._turn
        if isinstance(message, bytes):
            if turn is not None and self._asked is None:
                turn.take(message, self._end)
                self._end = turn.begin + turn.seconds
            return
        event = speech_wire.event(message, self._failures)
        if isinstance(event, ProviderError):
            raise event
        if isinstance(event, Spoken) and turn is not None and self._asked is None:
            turn.end(None)
        elif isinstance(event, Interrupted):
            self._end = event.played
            self._answer(event.text)
        elif isinstance(event, Warned):
            logger.warning("deepgram: %s: %s", event.code, event.text)
            if event.is_ignored and self._asked is not None:
                self._answer(None)

    def _answer(self, text: str | None) -> None:
        asked, self._asked = self._asked, None
        if self._limit is not None:
            self._limit.cancel()
        if asked is not None:
            if not asked.done():
                asked.set_result(text)
            if self._turn is not None and self._turn.was_asked.is_set():
                self._turn.end(None)

    def _on_lost(self, error: ProviderError) -> None:
        if self._turn is not None:
            self._turn.end(error)
        self._answer(None)
