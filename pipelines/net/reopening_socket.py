"""ReopeningSocket: a recogniser's websocket that is opened again when it is lost, without a gap in what it hears.

The audio since the last settled word is kept and sent again. Words that come twice are known by their times, and the
times go on: they are seconds of the stream, not of the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import anyio

from vivavoce.pipelines.core.boundary import as_provider_error
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.core.incidents import dropping
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.core.reconnect import STABLE_AFTER
from vivavoce.pipelines.core.retry import on_retry, wait_before_retry
from vivavoce.pipelines.net.kept_audio import OVERLAP, KeptAudio, Piece
from vivavoce.pipelines.net.sockets import Message, OnLost, OnMessage, Socket

logger = logging.getLogger(__name__)

A = TypeVar("A")

CLOSE_LIMIT = 1.5
"""Seconds for closing the connections."""

Connect = Callable[[OnMessage, OnLost], Awaitable[Socket]]
"""Opens a connection that is ready for audio, and begins to read its messages anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopeningOptions:
    """How a lost connection is opened again.

    Args:
        waits: Seconds before each try; more where the server asks for more, as with `RetryOptions`. A connection that
            lived for `STABLE_AFTER` seconds gives the next one all tries again; a handshake alone does not.
        keep_seconds: Seconds of audio without settled words that are kept.
        speed: Seconds of audio a second with which kept audio is sent again to a server that takes none faster; below 1
            it never catches up. None: at once.
        overlap: Seconds of settled audio that are sent again too, for a run-up; their words come twice, and are known
            by their times. 0 for a recogniser without times.
    """

    waits: tuple[float, ...] = (0.0, 0.5, 2.0)
    keep_seconds: float = 30.0
    speed: float | None = None
    overlap: float = OVERLAP

    def __post_init__(self) -> None:
        for wait in self.waits:
            check_number("waits", wait, at_least=0, unit="s")
        check_number("keep_seconds", self.keep_seconds, above=0, unit="s")
        check_number("speed", self.speed, above=0, or_none=True)
        check_number("overlap", self.overlap, at_least=0, unit="s")


class ReopeningSocket(Generic[A]):
    """One session's connection to a recogniser.

    Args:
        connect: Opens a connection; called again after each loss.
        encode: Makes the message of a piece of audio, or of a mark.
        on_message: Called with each message of the present connection.
        on_lost: Called once, when there will be no connection any more.
        provider: Name for errors.
        component: As for `Socket`.
    """

    def __init__(
        self,
        connect: Connect,
        encode: Callable[[A], Message],
        *,
        on_message: OnMessage,
        on_lost: OnLost,
        provider: str,
        component: str,
        options: ReopeningOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._connect = connect
        self._encode = encode
        self._on_message = on_message
        self._on_lost = on_lost
        self._provider = provider
        self._options = options or ReopeningOptions()
        self._clock = clock or LoopClock()
        self._tell_dropped = dropping(component)
        self._kept: KeptAudio[A] = KeptAudio(
            self._options.keep_seconds, self._note_dropped, overlap=self._options.overlap
        )
        self._tasks = OwnedTasks(f"reopening socket of {component}")
        self._behind: deque[Piece[A]] = deque()
        """Pieces that are sent later, since kept audio goes before them."""
        self._socket: Socket | None = None
        self._number = 0
        self._offset = 0.0
        self._opened_at = 0.0
        self._tries = 0
        self._loss: ProviderError | None = None
        self._has_lost = asyncio.Event()
        self._is_over = False

    # --- the stream

    @property
    def position(self) -> float:
        """Seconds of audio that were pushed."""
        return self._kept.end

    @property
    def unsettled(self) -> list[Piece[A]]:
        """The audio whose words are not settled, with its marks, for the stream that replaces this one."""
        return self._kept.pieces()

    def at(self, seconds: float) -> float:
        """Return the position in the stream of a time that the present connection reports."""
        return self._offset + seconds

    def is_repeated(self, start: float, end: float) -> bool:
        """Whether a word at these positions was settled by an earlier connection, or by this one."""
        return self._kept.is_repeated(start, end)

    async def open(self) -> None:
        """Open the first connection.

        Raises:
            ProviderError: It cannot be opened.
        """
        await self._begin()
        self._tasks.start(self._keep_open(), "keeper")

    def push(self, audio: A, seconds: float) -> None:
        """Send a piece of audio, and keep it until its words are settled, also after the last connection."""
        self._send(self._kept.push(audio, seconds))

    def mark(self, item: A) -> None:
        """Send what belongs between two pieces of audio, such as the end of an utterance, and keep it as these."""
        self._send(self._kept.push(item, 0.0))

    def post(self, message: Message) -> bool:
        """Send a message that only the present connection needs; return False if there is none."""
        return self._socket is not None and self._socket.post(message)

    def settle(self, until: float | None = None) -> None:
        """Note that all words before this position are known; None: of all audio so far."""
        self._kept.settle(self._kept.end if until is None else until)

    def discard(self) -> None:
        """Forget the audio so far: its words are not needed."""
        self._kept.clear()

    async def aclose(self, *last: Message) -> None:
        """Close the connection, after `last` if that can be sent. Calling it twice is fine."""
        self._is_over = True
        self._number += 1
        self._tasks.cancel()
        socket, self._socket = self._socket, None
        try:
            await self._tasks.finish(CLOSE_LIMIT)
        finally:
            if socket is not None:
                await socket.aclose(*last)

    # --- the connections

    async def _begin(self) -> None:
        self._number += 1
        self._has_lost.clear()
        socket = await self._connect(partial(self._take, self._number), partial(self._lose, self._number))
        if self._has_lost.is_set():  # between its last message and here
            self._tasks.start(socket.aclose(), "closing")
            return
        self._socket, self._opened_at = socket, self._clock.now()
        self._offset = self._kept.start
        pieces = self._kept.pieces()
        if pieces and self._options.speed is not None:
            self._behind.extend(pieces)
            self._tasks.start(self._catch_up(socket, self._options.speed), "catching up")
            return
        for piece in pieces:
            socket.post(self._encode(piece.item))

    async def _catch_up(self, socket: Socket, speed: float) -> None:
        """Send kept audio, and what comes meanwhile behind it, faster than it is spoken and slower than at once."""
        while self._behind and socket is self._socket:
            piece = self._behind[0]
            socket.post(self._encode(piece.item))
            await anyio.sleep((piece.end - piece.start) / speed)
            if socket is self._socket:
                self._behind.popleft()

    def _send(self, piece: Piece[A]) -> None:
        if self._socket is None:
            return
        if self._behind:
            self._behind.append(piece)
        elif not self._socket.post(self._encode(piece.item), is_audio=piece.end > piece.start):
            text = "the connection was lost: it is too slow for audio"  # its times would not be those of the stream
            self._lose(self._number, ProviderConnectionError(text, provider=self._provider))

    def _take(self, number: int, message: Message) -> None:
        if number == self._number:
            self._on_message(message)

    def _lose(self, number: int, error: ProviderError) -> None:
        if number != self._number or self._is_over:
            return
        self._number += 1  # what still comes of that connection is of no use: its audio will be heard again
        self._loss = error
        self._behind.clear()
        socket, self._socket = self._socket, None
        if socket is not None:
            self._tasks.start(socket.aclose(), "closing")
            if self._clock.now() - self._opened_at >= STABLE_AFTER:
                self._tries = 0
        self._has_lost.set()

    async def _keep_open(self) -> None:
        while True:
            await self._has_lost.wait()
            assert self._loss is not None
            try:
                error = await self._reopen(self._loss)
            except Exception as failure:  # noqa: BLE001 - such as the close of the component; nobody else would see it
                error = as_provider_error(failure, self._provider)
            if error is not None:
                self._is_over = True
                self._on_lost(error)
                return

    async def _reopen(self, error: ProviderError) -> ProviderError | None:
        """Open the next connection; return the reason if there will be none."""
        while True:
            wait = self._wait_before_next_try(error)
            if wait is None:
                return error
            logger.warning("lost a connection, which is opened again: %s", error)
            if (listener := on_retry.get()) is not None:
                listener(error, self._tries)
            await anyio.sleep(wait)
            try:
                await self._begin()
            except ProviderError as failed:
                error = failed
            else:
                return None

    def _wait_before_next_try(self, error: ProviderError) -> float | None:
        """Return the seconds to wait, or None after the last try."""
        if self._tries == len(self._options.waits):
            return None
        self._tries += 1
        return wait_before_retry(error, self._options.waits[self._tries - 1])

    def _note_dropped(self) -> None:
        if self._socket is None:  # no connection heard it
            self._tell_dropped()
