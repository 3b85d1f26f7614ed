"""TwinConnection: one websocket of a vendor's twin, whose session is sans-I/O. It needs aiohttp."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import WSMsgType, web

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Close:
    """The server closes the websocket; code 1005: without a status."""

    code: int
    reason: str = ""


Answer = Message | bytes | Close


class TwinSession(Protocol):
    """One connection, sans-I/O."""

    key_terms: list[str]

    def begin(self) -> Iterator[Answer]:
        """Return the first messages."""
        ...

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        """Take a binary frame."""
        ...

    def text(self, message: str) -> Iterator[Answer]:
        """Take a text frame."""
        ...


class TwinConnection:
    """The server's half of one websocket.

    Args:
        path, query: Of the handshake.
        note: Called after each message.
        idle: Seconds without a frame after which the answers behind it are given.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.BaseTransport | None,
        path: str,
        query: dict[str, list[str]],
        session: TwinSession,
        note: Callable[[], None],
        *,
        idle: tuple[float, Sequence[Answer]],
    ) -> None:
        self.path = path
        self.query = query
        self.session = session
        self.texts: list[str] = []
        """The client's text frames, oldest first."""
        self.sent: list[dict[str, Any]] = []
        """The messages to the client, oldest first."""
        self.audio_bytes = 0
        self.is_over = False
        self._socket = socket
        self._transport = transport
        self._note = note
        self._idle = idle
        self._is_mute = False

    @property
    def received(self) -> list[dict[str, Any]]:
        """The client's JSON objects, oldest first."""
        return [told for text in self.texts if isinstance(told := _json(text), dict)]

    async def send(self, message: dict[str, Any] | str | bytes) -> None:
        """Send a message, or a frame that breaks the protocol."""
        if isinstance(message, dict):
            self.sent.append(message)
            message = json.dumps(message)
        if isinstance(message, str):
            await self._socket.send_str(message)
        else:
            await self._socket.send_bytes(message)

    async def close(self, code: int = 1011, reason: str = "NET-0000") -> None:
        """Close the websocket; code 1005: without a status."""
        if code == 1005:
            await self._socket.send_frame(b"", WSMsgType.CLOSE)
            return
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """End the connection without a close."""
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    def stall(self) -> None:
        """Answer nothing from now on."""
        self._is_mute = True

    async def run(self) -> None:
        """Serve it to its end."""
        try:
            await self._serve()
        except ConnectionError:  # the client has gone, or the test has cut the connection
            return
        finally:
            self.is_over = True
            self._note()

    async def _serve(self) -> None:
        await self._answer(self.session.begin())
        limit, last = self._idle
        while True:
            try:
                async with asyncio.timeout(limit):
                    frame = await self._socket.receive()
            except TimeoutError:
                await self._answer(last)
                return
            if frame.type is WSMsgType.BINARY:
                self.audio_bytes += len(frame.data)
                answers: Iterable[Answer] = self.session.audio(frame.data)
            elif frame.type is WSMsgType.TEXT:
                self.texts.append(frame.data)
                answers = self.session.text(frame.data)
            else:
                return
            await self._answer(answers)
            self._note()

    async def _answer(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            if self._is_mute:
                continue
            if isinstance(answer, Close):
                await self.close(answer.code, answer.reason)
            else:
                await self.send(answer)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
