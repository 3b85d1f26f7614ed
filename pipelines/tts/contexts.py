"""Speech in contexts: one connection carries many stretches of text side by side, each with an id of its own.

A vendor's plugin makes and reads the messages (`SpeechContext`, `ContextConnection`). Here are the order of the events,
the limits, and the way from a text that comes in pieces to the audio of its sentences (`ContextSpeech`,
`whole_sentences`, `speak_once`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

import anyio

from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.core.words import unless_blank
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client, Query
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.sockets import Message, Socket, open_socket
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import AudioChunk, Word
from vivavoce.pipelines.tts.pieces import WholeSamples
from vivavoce.pipelines.tts.sentences import SentenceCutter

CLOSE_LIMIT = 1.0
"""Seconds in which the source of a text ends that is not read any more."""

Event = bytes | tuple[Word, ...]
"""A piece of 16-bit audio, which may end in the middle of a sample; or words at seconds of the context's audio."""


class SpeechContext(ABC):
    """One stretch of speech.

    Args:
        provider: Name for errors.
        forget: Called once with its id, at its end.
        limit: Seconds in which the server answers a text.
    """

    def __init__(self, provider: str, forget: Callable[[str], object], limit: float) -> None:
        self.id = new_id("context")
        self.text = ""
        """All of its text so far, of which no error may quote."""
        self._provider = provider
        self._forget = forget
        self._limit = limit
        self._clock: Clock = LoopClock()
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._is_complete = False
        self._is_over = False
        self._error: ProviderError | None = None
        self.unanswered = ""
        """The last text, if no audio has come since."""
        self._active_at = self._clock.now()
        """When it last got text or audio."""

    @abstractmethod
    def _send_text(self, text: str) -> None:
        """Have the server speak this behind the earlier text."""

    @abstractmethod
    def _send_end(self) -> None:
        """Tell the server that no more text comes."""

    @abstractmethod
    def _send_cancel(self) -> None:
        """Have the server say no more of it."""

    @abstractmethod
    def _lives_on(self, idle: float) -> bool:
        """Whether the server still knows it.

        Args:
            idle: Seconds since its last audio; 0 while audio is due.
        """

    @property
    def takes_text(self) -> bool:
        """Whether more text belongs here."""
        if self._is_complete or self._is_over:
            return False
        return self._lives_on(0.0 if self._is_due else self._clock.now() - self._active_at)

    @property
    def _is_due(self) -> bool:
        """Whether the server has to say something."""
        return self._is_complete or bool(self.unanswered)

    def say(self, text: str) -> None:
        """Speak this behind the earlier text."""
        self.text += text
        self.unanswered += text
        self._active_at = self._clock.now()
        self._send_text(text)
        self._changed.set()

    def finish(self) -> None:
        """Tell the server that no more text comes."""
        if not self._is_complete and not self._is_over:
            self._is_complete = True
            self._send_end()
            self._changed.set()

    def cancel(self) -> None:
        """End it at the server too; its late audio is dropped."""
        if not self._is_over:
            self._send_cancel()
            self.end(None)

    def take(self, event: Event) -> None:
        """Take an event of the server."""
        if isinstance(event, bytes):
            self._active_at = self._clock.now()
            self.unanswered = ""
        self._events.append(event)
        self._changed.set()

    def pass_over(self) -> None:
        """Note that the server has nothing to say of the last text."""
        self.unanswered = ""

    def end(self, error: ProviderError | None) -> None:
        """End it; a second end changes nothing."""
        if not self._is_over:
            self._is_over, self._error = True, error
            self._changed.set()
            self._forget(self.id)

    async def next(self) -> Event | None:
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
                raise ProviderTimeoutError(text, provider=self._provider)
        return self._events.popleft()

    async def _waited(self, limit: float | None) -> bool:
        try:
            async with asyncio.timeout(limit):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


C = TypeVar("C", bound=SpeechContext)


class ContextConnection(ABC, Generic[C]):
    """One websocket, on which any number of contexts speak side by side; for a `Pool`.

    Args:
        client: Connects.
        path, query: Of the websocket.
        handshake: The errors of the handshake and of a lost connection.
    """

    def __init__(self, client: Client, path: str, query: Query, handshake: Failures) -> None:
        self._client = client
        self._path = path
        self._query = query
        self._handshake = handshake
        self._contexts: dict[str, C] = {}
        self._socket: Socket | None = None

    @abstractmethod
    def _take(self, message: Message) -> None:
        """Give the event of a message to the context with its id; others are of a context that is over.

        Raises:
            ProviderProtocolError: The message breaks the protocol.
        """

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
            self._path,
            self._query,
            self._handshake,
            on_message=self._take,
            on_lost=self._end,
            component="tts",
        )
        self._socket.start()

    async def aclose(self) -> None:
        """Close it; contexts that still speak fail. Calling it twice is fine."""
        if self._socket is not None:
            await self._socket.aclose()
        provider = self._handshake.provider
        self._end(ProviderConnectionError("the voice was closed", provider=provider, retryable=False))

    def _add(self, context: C) -> C:
        """Have a new context get its events."""
        self._contexts[context.id] = context
        if self.is_lost:
            context.end(ProviderConnectionError("the connection was lost", provider=self._handshake.provider))
        return context

    def _post(self, message: str) -> None:
        if self._socket is not None:
            self._socket.post(message)

    def _said(self) -> list[str]:
        """Return the texts that no error may quote."""
        return [context.text for context in self._contexts.values()]

    def _end(self, error: ProviderError) -> None:
        for context in list(self._contexts.values()):
            context.end(error)


class ContextSpeech(Generic[C]):
    """The contexts of one text, one behind the other: a pause of the text may be longer than a context lives.

    A context may also end while a text is on its way to it; a new one then speaks that text.

    Args:
        begin: Returns a new context.
        name: Of the voice for tasks, such as `"cartesia"`.
    """

    def __init__(self, begin: Callable[[], C], name: str) -> None:
        self._begin = begin
        self._contexts: Feed[C] = Feed()
        self.begun: list[C] = []
        """All contexts so far."""
        self._tasks = OwnedTasks(f"{name} speech")
        self._reading: asyncio.Task[None] | None = None

    def start(self, sentences: AsyncIterator[str]) -> None:
        """Begin to read the text."""
        self._reading = self._tasks.task(self._read(sentences), "text")

    async def chunks(self, rate: int) -> AsyncGenerator[AudioChunk, None]:
        """Yield the speech.

        Raises:
            ProviderError: A context failed.
            Exception: That of the text's source.
        """
        count = 0
        async with aclosing(self._in_order()) as contexts:
            async for context in contexts:
                start, samples = count / rate, WholeSamples()
                while (event := await context.next()) is not None:
                    if isinstance(event, bytes):
                        frame = AudioFrame(samples.push(event), rate)
                        count += frame.samples
                        yield AudioChunk(frame)
                    else:
                        words = tuple(Word(word.text, start + word.start, start + word.end) for word in event)
                        yield AudioChunk(AudioFrame(b"", rate), words)
        assert self._reading is not None
        await self._reading

    async def aclose(self) -> None:
        """Cancel the contexts that still speak, and leave the text."""
        for context in self.begun:
            context.cancel()
        self._tasks.cancel()
        with anyio.CancelScope(shield=True):  # the text must have ended before its owner closes it
            await self._tasks.finish(CLOSE_LIMIT)
        if self._reading is not None and self._reading.done() and not self._reading.cancelled():
            self._reading.exception()  # of a text that is not read any more

    async def _in_order(self) -> AsyncGenerator[C, None]:
        async for context in self._contexts.items():
            yield context
            if context.unanswered:
                again = self._begin()
                self.begun.append(again)
                again.say(context.unanswered)
                again.finish()
                yield again

    async def _read(self, sentences: AsyncIterator[str]) -> None:
        context: C | None = None
        try:
            async for sentence in sentences:
                if context is None or not context.takes_text:
                    if context is not None:
                        context.finish()
                    context = self._begin()
                    self.begun.append(context)
                    self._contexts.put(context)
                context.say(sentence)
        finally:
            if context is not None:
                context.finish()
            self._contexts.end()


async def whole_sentences(text: AsyncIterator[str]) -> AsyncGenerator[str, None]:
    """Yield the sentences of a text as it comes, each with a space behind it; none begins without a word.

    White space behind a sentence that looks finished ends it.
    """
    cutter, before = SentenceCutter(), ""
    async for piece in text:
        parts = list(cutter.push(piece))
        if piece[-1:].isspace() and cutter.looks_finished:
            parts += cutter.settle()
        for part in parts:
            before += f"{part} "
            if unless_blank(before):
                yield before
                before = ""
    for part in cutter.finish():
        before += f"{part} "
        if unless_blank(before):
            yield before
            before = ""


async def speak_once(
    speak: Callable[[AsyncGenerator[str, None]], AsyncGenerator[AudioChunk, None]], text: str, rate: int
) -> AsyncGenerator[AudioChunk, None]:
    """Yield the speech of a `synthesize()`, and behind its audio the chunk that says that it is complete.

    Args:
        speak: Speaks the pieces of a text; not called for a text without words.
    """
    if not unless_blank(text):
        return
    has_audio = False
    async with aclosing(speak(_in_one_piece(text))) as chunks:
        async for chunk in chunks:
            has_audio = has_audio or bool(chunk.frame.data)
            yield chunk
    if has_audio:
        yield AudioChunk(AudioFrame(b"", rate), is_end=True)


async def _in_one_piece(text: str) -> AsyncGenerator[str, None]:
    yield text
