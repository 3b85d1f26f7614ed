"""ReopeningStream: one session's recognition over a websocket, for plugins whose wire is sans-I/O."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Generic, Protocol, TypeVar

from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.outbox import KeepAlive
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions, ReopeningSocket
from vivavoce.pipelines.net.sockets import Message, OnLost, OnMessage, Socket, open_socket
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTEvent

RATE = 16_000
"""Hz of the audio that is sent."""

Query = list[tuple[str, str]]


class StreamWire(Protocol):
    """Turns the service's messages into the port's events, sans-I/O. Positions are seconds of the stream's audio."""

    @property
    def shown_until(self) -> float:
        """The position up to which words were settled or shown."""
        ...

    def begin(self) -> None:
        """Read the messages of a new connection, which hears unsettled audio again."""
        ...

    def feed(self, message: Message) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error, and closes.
        """
        ...

    def flush(self, position: float) -> None:
        """Note that the utterance is over at this position."""
        ...

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there."""
        ...


W = TypeVar("W", bound=StreamWire)


class ReopeningStream(base.STTStream, Generic[W]):
    """A lost connection is opened again, without a gap in what it hears.

    Args:
        path, query: Of the websocket.
        make_wire: Called with a function that returns the stream's position of a time of the present connection, one
            that takes the position up to which all words are known, and one that takes events.
        flush: The message that has the service settle its words; None: it has none.
        close: The message before the end; "": none.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        query: Query,
        failures: Failures,
        options: ReopeningOptions,
        make_wire: Callable[[Callable[[float], float], Callable[[float], None], Callable[[STTEvent], None]], W],
        *,
        flush: str | None,
        close: str,
    ) -> None:
        self._client = client
        self._path = path
        self._query = query
        self._failures = failures
        self._flush = flush
        self._close = close
        self._events: Feed[STTEvent] = Feed()
        self._socket: ReopeningSocket[Message] = ReopeningSocket(
            self._connect,
            self._encode,
            on_message=lambda message: self._wire.feed(message),
            on_lost=self._events.end,
            provider=failures.provider,
            component="stt",
            options=options,
        )
        self._wire = make_wire(self._at, self._socket.settle, self._events.put)

    async def open(self) -> None:
        """Open the first connection.

        Raises:
            ProviderError: It cannot be opened.
        """
        try:
            await self._socket.open()
        except BaseException:
            await self.aclose()
            raise

    def _encode(self, item: Message) -> Message:
        """Return the message of a piece of audio, or of `flush`; called once for each connection that it is sent on."""
        return item

    def _keep_alive(self) -> KeepAlive[Message] | None:
        """Return the message that keeps a connection without audio."""
        return None

    def _at(self, seconds: float) -> float:
        return self._socket.at(seconds)

    async def _connect(self, on_message: OnMessage, on_lost: OnLost) -> Socket:
        socket = await open_socket(
            self._client,
            self._path,
            self._query,
            self._failures,
            on_message=on_message,
            on_lost=on_lost,
            component="stt",
            keep_alive=self._keep_alive(),
        )
        self._wire.begin()  # not sooner: a discard during the handshake is about no message of this connection
        socket.start()
        return socket

    def push(self, frame: AudioFrame) -> None:
        self._socket.push(frame.data, frame.duration)

    def events(self) -> AsyncIterator[STTEvent]:
        return self._events.items()

    def flush(self) -> None:
        self._wire.flush(self._socket.position)
        if self._flush is not None:
            self._socket.mark(self._flush)

    def discard(self) -> None:
        self._wire.discard(self._socket.position)
        self._socket.discard()

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        """Push the audio behind the words that were reported, also as an interim, which the pipeline settles."""
        for piece in self._socket.unsettled:
            if piece.start < self._wire.shown_until:
                continue
            if isinstance(piece.item, bytes):
                push(AudioFrame(piece.item, RATE))
            else:
                flush()

    async def aclose(self) -> None:
        self._events.end()
        await self._socket.aclose(*([self._close] if self._close else []))
