"""A server on loopback that does what servers of providers do wrong, for whatever plugin connects.

async with faulty_server(answer) as server:
    server.faults.append(Refuse(429, {"retry-after": "7"}))
    …                                  # the next handshake, or request, is refused
    await server.peer().close(1011)    # the open websocket is closed
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import WSMsgType, web

from vivavoce.pipelines.net.websocket import cut

LIMIT = 15.0
"""Seconds that a test waits for an expected event."""

Message = str | bytes
Answer = Callable[[Message], Iterable[Message]]
"""Returns the messages with which a good server answers one of a client."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with this status."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    kind: str = "application/json"
    stalls: bool = False
    """Whether the body never comes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """End the connection without an answer; in a request's body, after these pieces."""

    pieces: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Stall:
    """Keep the connection and say nothing; in a request's body, after these pieces."""

    pieces: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """Answer a request with these pieces."""

    pieces: tuple[bytes, ...]
    kind: str


Fault = Refuse | Cut | Stall | Body


class Peer:
    """The server's half of one websocket."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        self._socket = socket
        self._transport = transport
        self.received: list[Message] = []
        self.changed = asyncio.Condition()
        self.is_over = False

    async def send(self, *messages: Message) -> None:
        """Send frames."""
        for message in messages:
            if isinstance(message, str):
                await self._socket.send_str(message)
            else:
                await self._socket.send_bytes(message)

    async def close(self, code: int, reason: str = "") -> None:
        """Close as the protocol says."""
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """End the connection without a word."""
        cut(self._transport)

    def stop_reading(self) -> None:
        """Take nothing more from the network."""
        self._transport.pause_reading()

    async def got(self, count: int) -> list[Message]:
        """Wait until the client has sent that many messages."""
        async with asyncio.timeout(LIMIT), self.changed:
            await self.changed.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def ended(self) -> None:
        """Wait until the connection is over."""
        async with asyncio.timeout(LIMIT), self.changed:
            await self.changed.wait_for(lambda: self.is_over)

    async def talk(self, answer: Answer) -> None:
        """Answer each message until the end."""
        try:
            async for frame in self._socket:
                if frame.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    self.received.append(frame.data)
                    await self._note()
                    await self.send(*answer(frame.data))
        except ConnectionError:  # the client is gone, or the test has cut the connection
            return
        finally:
            self.is_over = True
            await self._note()

    async def _note(self) -> None:
        async with self.changed:
            self.changed.notify_all()


class FaultyServer:
    """Does the next fault with each handshake or request, else what a good server does."""

    def __init__(self, answer: Answer, good: Body | None, greeting: Iterable[Message] = ()) -> None:
        self.url = ""
        self.faults: list[Fault] = []
        self.requests: list[Mapping[str, str]] = []
        """The headers of each request."""
        self.lines: list[str] = []
        """Method, path and content type of each request."""
        self.connections: set[object] = set()
        self.peers: list[Peer] = []
        self._answer = answer
        self._good = good
        self._greeting = tuple(greeting)
        self._changed = asyncio.Condition()

    def peer(self) -> Peer:
        """Return the server's half of the newest websocket."""
        return self.peers[-1]

    async def connected(self, count: int) -> Peer:
        """Wait until that many websockets were opened, in all; return the newest one."""
        async with asyncio.timeout(LIMIT), self._changed:
            await self._changed.wait_for(lambda: len(self.peers) >= count)
        return self.peer()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request or websocket."""
        self.requests.append(request.headers)
        self.connections.add(request.transport)
        self.lines.append(f"{request.method} {request.path_qs} {request.headers.get('Content-Type', '')}")
        fault: Fault | None = self.faults.pop(0) if self.faults else self._good
        if isinstance(fault, Refuse) and fault.stalls:
            response = web.StreamResponse(status=fault.status, headers={"Content-Length": "10"})
            await response.prepare(request)
            await asyncio.Event().wait()
        if isinstance(fault, Refuse):
            return web.Response(status=fault.status, headers=fault.headers, text=fault.body, content_type=fault.kind)
        if fault is None:
            return await self._websocket(request)
        return await self._body(fault, request)

    async def _body(self, fault: Cut | Stall | Body, request: web.Request) -> web.StreamResponse:
        kind = fault.kind if isinstance(fault, Body) else self._good.kind if self._good is not None else "text/plain"
        response = web.StreamResponse(headers={"Content-Type": kind})
        if fault.pieces:
            await response.prepare(request)
        for piece in fault.pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        if isinstance(fault, Cut):
            assert request.transport is not None
            request.transport.abort()
        elif isinstance(fault, Stall):
            await asyncio.Event().wait()
        return response

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=0, timeout=0.5)
        await socket.prepare(request)
        assert request.transport is not None
        peer = Peer(socket, request.transport)
        self.peers.append(peer)
        async with self._changed:
            self._changed.notify_all()
        await peer.send(*self._greeting)
        await peer.talk(self._answer)
        return socket


def no_answer(message: Message) -> Iterable[Message]:
    """A server that only listens."""
    return ()


@asynccontextmanager
async def faulty_server(
    answer: Answer = no_answer,
    good: Body | None = None,
    certificate: Path | None = None,
    greeting: Iterable[Message] = (),
) -> AsyncIterator[FaultyServer]:
    """Serve on a free port of 127.0.0.1.

    Args:
        answer: What a good server says over a websocket.
        good: What a good server answers to a request; None: each request opens a websocket.
        certificate: A file of `make_certificate()`; None: the server speaks without TLS.
        greeting: What a good server says first over a websocket.
    """
    server = FaultyServer(answer, good, greeting)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        own: ssl.SSLContext | None = None
        if certificate is not None:
            own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            own.load_cert_chain(certificate)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=own).start()
        host, port = runner.addresses[0][:2]
        server.url = f"http{'s' if own else ''}://{host}:{port}/v1"
        yield server
    finally:
        for peer in server.peers:
            peer.abort()
        await runner.cleanup()


@asynccontextmanager
async def raw_server(said: bytes) -> AsyncIterator[str]:
    """Serve on a free port of 127.0.0.1: read a request, say these bytes, and cut the connection. Give the URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.transport.abort() if not said else writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
