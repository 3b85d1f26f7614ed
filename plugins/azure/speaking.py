"""Connection: one websocket of a voice, which carries one turn at a time; Turn: one stretch of speech on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.sockets import Message, Socket
from vivavoce.pipelines.tts.contexts import SpeechContext
from vivavoce.plugins.azure.client import AzureComponent
from vivavoce.plugins.azure.synthesis import STOP, SpokenWords, end_frame, piece_frame, ssml_frame
from vivavoce.plugins.azure.wire import PROVIDER, Frame, new_request, read_frame, speech_config, text_frame


class Turn(SpeechContext):
    """One stretch of speech: text as it comes, or one document.

    Args:
        post: Sends a message.
        document: Makes a document of a text; None: the text is sent as it comes.
        limit: Seconds in which the service answers a text.
    """

    def __init__(self, post: Callable[[str], object], document: Callable[[str], str] | None, limit: float) -> None:
        super().__init__(PROVIDER, lambda _: None, limit)
        self.id = new_request()
        self._post = post
        self._document = document
        self._words = SpokenWords()
        self._ended = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether the service knows it no more."""
        return self._ended.is_set()

    def read(self, frame: Frame, failures: Failures) -> None:
        """Take a message of the service.

        Raises:
            ProviderProtocolError: It breaks the protocol.
        """
        if frame.path == "audio" and isinstance(frame.body, bytes) and frame.body:
            self.take(frame.body)
        elif frame.path == "audio.metadata" and (words := self._words.take(frame, failures)):
            self.take(words)
        elif frame.path == "turn.end":
            self.forget(None)

    def forget(self, error: ProviderError | None) -> None:
        """Note that the service knows it no more."""
        self._ended.set()
        self.end(error)

    async def ended(self, limit: float) -> bool:
        """Wait until the service knows it no more; return whether that came in time."""
        try:
            async with asyncio.timeout(limit):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def _send_text(self, text: str) -> None:
        self._words.add(text)
        if self._document is None:
            self._post(piece_frame(self.id, text))
        else:
            self._post(ssml_frame(self.id, self._document(text)))

    def _send_end(self) -> None:
        if self._document is None:
            self._post(end_frame(self.id))

    def _send_cancel(self) -> None:
        self._post(text_frame("synthesis.control", STOP, request=self.id))

    def _lives_on(self, idle: float) -> bool:
        return self._document is None  # until its end


class Connection:
    """Gives its turn the messages with its id; others are of a turn that is over.

    Args:
        server: Connects.
        asked: For errors.
        context: The body of `synthesis.context` of each turn.
        document: As a turn's.
        limit: As a turn's.
    """

    def __init__(
        self,
        server: AzureComponent,
        query: list[tuple[str, str]],
        asked: str,
        context: str,
        document: Callable[[str], str] | None,
        limit: float,
    ) -> None:
        self._server = server
        self._query = query
        self._asked = asked
        self._context = context
        self._document = document
        self._limit = limit
        self._failures = Failures(provider=PROVIDER)
        self._socket: Socket | None = None
        self.turn: Turn | None = None
        """The newest one."""

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

    def begin(self) -> Turn:
        """Return a new turn; the one before is over."""
        assert self.turn is None or self.turn.has_ended, "one turn at a time"
        turn = self.turn = Turn(self._post, self._document, self._limit)
        if self.is_lost:
            turn.forget(ProviderConnectionError("the connection was lost", provider=PROVIDER))
        self._post(text_frame("synthesis.context", self._context, request=turn.id))
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
        return [self.turn.text] if self.turn is not None else []

    def _on_message(self, message: Message) -> None:
        frame = read_frame(message, self._failures)
        if self.turn is not None and frame.request == self.turn.id:
            self.turn.read(frame, self._failures)

    def _end(self, error: ProviderError) -> None:
        if self.turn is not None:
            self.turn.forget(error)
