"""PeerServer: lets agents of other processes talk with the sessions of this one, over WebSockets."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import quote

import anyio

from vivavoce.agents.peers.control import PeersControl
from vivavoce.agents.peers.dial import GOODBYE_LIMIT, HEARTBEAT, HELLO_LIMIT, check_hello, checked_token
from vivavoce.agents.peers.link import Link, Side, refuse
from vivavoce.agents.peers.peer import Peer
from vivavoce.agents.peers.wire import MAX_FRAME, Hello, PeerProtocolError, PeerWire, encode
from vivavoce.agents.session_type import Session
from vivavoce.agents.transports.text import TextTransport
from vivavoce.pipelines.core.checks import check_function, check_port, check_text
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    PeerError,
    PeerRejected,
    SessionClosedError,
    VoiceError,
    describe,
    located,
)
from vivavoce.pipelines.core.ports import why_no_port
from vivavoce.pipelines.core.trace_context import trace_of

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 1000
CLOSE_LIMIT = 10.0
"""Seconds for the sessions of all connections."""


class Carrier(Protocol):
    """A channel whose dialogues come in over a server."""

    def hello(self) -> Hello:
        """Return the hello of this end, with the dialogues of all its sessions."""
        ...

    @property
    def side(self) -> Side:
        """Takes the messages that come over a connection."""
        ...


class PeerServer:
    """Lets agents of other processes talk with the sessions of this one: `async with PeerServer(...) as server`.

    A connection to `server.url` gets a text session of its own, which ends with it. One to `server.url_of(session)`
    reaches a session that runs here, given by `add(session)`. Both need `SessionOptions(peers=PeerOptions(...))`.

    Args:
        session_factory: Makes the session of a connection, which the server starts with a `TextTransport`. What its
            agent says without a request is sent as a text. None: there are only sessions that run here.
        host: Where to listen. Anything but loopback needs a token.
        port: 0 for a free one.
        token: The clients send it as `Authorization: Bearer …`. Without one, browsers are refused.
    Raises:
        ConfigurationError: An argument is of another kind, or `host` is not loopback and there is no token.
    """

    def __init__(
        self,
        session_factory: Callable[[], Session] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        check_function("session_factory", session_factory, or_none=True)
        check_text("host", host)
        check_port("port", port)
        self._token = checked_token(token)
        if not self._token and not _is_loopback(host):
            raise ConfigurationError(f"a server beyond loopback needs a token, got host={host!r} without one")
        self._factory = session_factory
        self._host = host
        self._port = port
        self._sessions: dict[str, Session] = {}
        self._channel: Carrier | None = None
        self._silent: set[anyio.CancelScope] = set()
        """The waits for a client's hello."""
        self._links: set[Link] = set()
        self._connections = 0
        self._runner: web.AppRunner | None = None

    def __repr__(self) -> str:
        return f"PeerServer({self.url if self._runner is not None else self._host!r})"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            PeerError: The port is taken.
        """
        from aiohttp import web

        app = web.Application()
        app.router.add_get("/{session:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=CLOSE_LIMIT)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise PeerError(why_no_port(error, self._host, self._port)) from error
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runner, self._runner = self._runner, None
        for silent in self._silent:
            silent.cancel()
        for link in list(self._links):
            link.close()
        if runner is not None:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()

    @property
    def url(self) -> str:
        """The address for text sessions and dialogues, such as `ws://127.0.0.1:8090/`.

        Raises:
            PeerError: The server does not listen.
        """
        if self._runner is None:
            raise PeerError("the server has no address: enter it with 'async with' first")
        host, port = self._runner.addresses[0][:2]
        return f"ws://{f'[{host}]' if ':' in host else host}:{port}/"

    def url_of(self, session: Session) -> str:
        """Return the address of a session that runs here.

        Raises:
            PeerError: The server does not listen.
        """
        return f"{self.url}{quote(session.id, safe='')}"

    def add(self, session: Session) -> None:
        """Let peers reach a session of this event loop by its id, until it closes.

        Raises:
            ConfigurationError: It is no session, or has no `PeerOptions`.
        """
        PeersControl.of(session)
        self._sessions[session.id] = session
        session.on("closed", lambda _: self._forget(session))

    def carry(self, channel: Carrier) -> None:
        """Let dialogues come in for the sessions of a channel. A `PeerChannel` calls it for its server.

        Raises:
            ConfigurationError: The server has another channel.
        """
        if self._channel not in (None, channel):
            raise ConfigurationError("a server has one PeerChannel; give that one to all sessions")
        self._channel = channel

    def _forget(self, session: Session) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]

    # --- a connection

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if self._token and not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return web.Response(status=401)
        if not self._token and "Origin" in request.headers:  # any page could reach a server on loopback
            return web.Response(status=403)
        if self._connections >= MAX_CONNECTIONS:
            return web.Response(status=503)
        socket = web.WebSocketResponse(
            timeout=GOODBYE_LIMIT, heartbeat=HEARTBEAT, max_msg_size=MAX_FRAME, compress=False
        )
        if not socket.can_prepare(request).ok:
            return web.Response(status=426)
        await socket.prepare(request)
        self._connections += 1
        try:
            await self._serve_socket(socket, request.match_info["session"])
        except PeerRejected as error:
            await refuse(socket, str(error))
        except (PeerProtocolError, OSError) as error:
            logger.warning("A client is no peer: %s", describe(error))
            await socket.close(code=1002)
        finally:
            self._connections -= 1
        return socket

    async def _serve_socket(self, socket: Any, session_id: str) -> None:
        wire = PeerWire(Hello())
        with anyio.move_on_after(HELLO_LIMIT) as silent:
            self._silent.add(silent)
            try:
                check_hello(wire, await socket.receive())
            finally:
                self._silent.discard(silent)
        if silent.cancelled_caught:
            raise PeerProtocolError("it said no hello")
        if wire.other.wants == "dialogues":
            await self._serve_dialogues(socket, wire)
        elif session_id:
            session = self._sessions.get(session_id)
            if session is None:
                raise PeerRejected("no such session runs here")
            await self._serve_session(socket, wire, PeersControl.of(session))
        else:
            await self._serve_text(socket, wire)

    async def _serve_dialogues(self, socket: Any, wire: PeerWire) -> None:
        own = Hello() if self._channel is None else self._channel.hello()
        if self._channel is None or not {*own.dialogues} & {*wire.other.dialogues}:
            raise PeerRejected("the two ends have no dialogue in common: their digests differ")
        await self._run(Link(socket, await _hello(socket, wire, own), self._channel.side))

    async def _serve_session(
        self, socket: Any, wire: PeerWire, control: PeersControl, chat: TextTransport | None = None
    ) -> None:
        peer, link = control.accept(socket, await _hello(socket, wire, control.hello()))
        try:
            async with anyio.create_task_group() as tasks:
                if chat is not None:
                    tasks.start_soon(_send_texts, chat, control, peer)
                await self._run(link)
                tasks.cancel_scope.cancel()
        finally:
            control.drop(peer)

    async def _serve_text(self, socket: Any, wire: PeerWire) -> None:
        if self._factory is None:
            raise PeerRejected("a connection here needs the id of a session that runs")
        try:
            with trace_of(wire.other.traceparent):  # in which the session's spans are
                session = self._factory()
                control = PeersControl.of(session, what="the result of session_factory")
                chat = TextTransport()
                await session.start(chat)
        except Exception as error:  # noqa: BLE001 - the application's code
            logger.error("The session of a peer did not start: %s", located(error))
            logger.debug("The session of a peer did not start", exc_info=error)
            raise PeerRejected("its session did not start") from None
        async with session:
            await self._serve_session(socket, wire, control, chat)

    async def _run(self, link: Link) -> None:
        self._links.add(link)
        if self._runner is None:  # the server has ended meanwhile
            link.close()
        try:
            await link.run()
        finally:
            self._links.discard(link)


async def _hello(socket: Any, wire: PeerWire, own: Hello) -> PeerWire:
    """Answer the hello of a client."""
    await socket.send_str(encode(own))
    return wire


async def _send_texts(chat: TextTransport, control: PeersControl, peer: Peer) -> None:
    """Send the peer all texts of the agent that answer no request."""
    with suppress(SessionClosedError):
        while True:
            said = await chat.receive()
            if not said.text or control.is_answer(said.turn_id):
                continue
            try:
                await peer.send(said.text)
            except VoiceError as error:
                logger.debug("A peer does not get the text of the agent: %s", error)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
