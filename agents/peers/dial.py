"""dial: connects to a peer's server and says hello."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import anyio

from vivavoce.agents.peers.wire import MAX_FRAME, VERSION, Hello, PeerProtocolError, PeerWire, Refused, encode
from vivavoce.pipelines.core.checks import check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, PeerError, PeerRejected, PeerUnreachable, describe
from vivavoce.pipelines.net.client import proxy_of
from vivavoce.pipelines.net.keys import shown_url

CONNECT_LIMIT = 5.0
"""Seconds to connect."""
HELLO_LIMIT = 15.0
"""Seconds for the other end's hello, before which it may start a session."""
HEARTBEAT = 20.0
"""Seconds without a message after which an end sends a ping; it waits half as long for the answer."""
GOODBYE_LIMIT = 0.5
"""Seconds for the other end's answer to the close of a connection."""
STATUSES = {
    401: "it needs another token",
    403: "it needs a token",
    404: "there is no peer",
    503: "it has no place left",
}


def checked_url(url: object, *, remedy: str = "") -> str:
    """Return the URL of a peer.

    Args:
        remedy: For the end of the error.
    Raises:
        ConfigurationError: It is no URL of a WebSocket.
    """
    text = check_text("url", url, remedy="such as 'ws://127.0.0.1:8090/'")
    try:
        parts = urlsplit(text)
        is_fine = parts.scheme in ("ws", "wss") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ConfigurationError(
            f"url must be that of a WebSocket, such as 'ws://127.0.0.1:8090/', got {shown_url(text)!r}{remedy}"
        )
    return text


def checked_token(token: object) -> str:
    """Return a token, "" for None.

    Raises:
        ConfigurationError: It is no text that a header can have.
    """
    if token is None:
        return ""
    if not (isinstance(token, str) and token and token.isascii() and token.isprintable() and " " not in token):
        kind = ("other characters" if token else "an empty text") if isinstance(token, str) else shown(type(token))
        raise ConfigurationError(f"token must be printable ASCII without spaces, or None, got {kind}")
    return token


async def dial(url: str, token: str, own: Hello) -> tuple[Any, PeerWire]:
    """Return a new connection on which both ends have said hello.

    Raises:
        PeerUnreachable: There is no connection within `CONNECT_LIMIT`, or no hello within `HELLO_LIMIT`.
        PeerRejected: The other end refuses it.
    """
    socket = await _connect(url, token)
    wire = PeerWire(own)
    try:
        with anyio.fail_after(HELLO_LIMIT):
            await socket.send_str(encode(own))
            check_hello(wire, await socket.receive())
        return socket, wire
    except TimeoutError:
        failure: PeerError = PeerUnreachable(f"{shown_url(url)} said no hello within {HELLO_LIMIT:g} s")
    except PeerProtocolError as error:
        failure = PeerUnreachable(f"{shown_url(url)} is no peer: {error}")
    except OSError as error:
        failure = PeerUnreachable(f"the connection to {shown_url(url)} was lost: {describe(error)}")
    except BaseException:
        socket.abort()
        raise
    socket.abort()
    raise failure


def check_hello(wire: PeerWire, message: Any) -> None:
    """Give the first message of a connection to its wire.

    Raises:
        PeerProtocolError: It is no hello.
        PeerRejected: The other end refuses the connection, or has another version of the protocol.
    """
    from aiohttp import WSMsgType

    if message.type is not WSMsgType.TEXT:
        raise PeerProtocolError("the connection ended without a hello")
    frame = wire.take(message.data)
    if isinstance(frame, Refused):
        raise PeerRejected(f"the peer refuses the connection: {frame.detail}")
    if wire.other.version != VERSION:
        raise PeerRejected(f"the peer speaks version {wire.other.version} of the protocol, this one {VERSION}")


async def _connect(url: str, token: str) -> Any:
    """Open a WebSocket."""
    import aiohttp

    from vivavoce.pipelines.net.websocket import WebSocket

    where = shown_url(url)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, resolver=aiohttp.ThreadedResolver()),
        cookie_jar=aiohttp.DummyCookieJar(),
        ws_response_class=WebSocket,
    )
    try:
        with anyio.fail_after(CONNECT_LIMIT):
            socket = await session.ws_connect(
                url,
                headers={"Authorization": f"Bearer {token}"} if token else None,
                heartbeat=HEARTBEAT,
                max_msg_size=MAX_FRAME,
                proxy=proxy_of(url),
                timeout=aiohttp.ClientWSTimeout(ws_close=GOODBYE_LIMIT),
            )
        session.detach()
        return socket
    except TimeoutError:
        failure: PeerError = PeerUnreachable(f"no connection to {where} within {CONNECT_LIMIT:g} s")
    except aiohttp.WSServerHandshakeError as error:
        why = STATUSES.get(error.status, "is it a peer's server?")
        failure = PeerRejected(f"{where} refuses the connection with status {error.status}: {why}")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        reason = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        failure = PeerUnreachable(f"no connection to {where}: {describe(reason)}")
    finally:
        await session.close()
    raise failure  # outside of the block: the foreign error, which may hold the token, is not even its context
