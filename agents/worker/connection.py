"""One websocket to the server: connects, receives and sends frames, and reports why it ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ObjectReceiveStream

from vivavoce.agents.server_access import Credentials, why_unreachable
from vivavoce.agents.worker.protocol import ServerMessage, decode
from vivavoce.pipelines.core.errors import WorkerError

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

logger = logging.getLogger(__name__)

HEARTBEAT = 10.0
"""Seconds between our pings; a server that does not answer within half of it is gone."""

CLOSE_HANDSHAKE_LIMIT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Why a connection ended, and whether the server refused our credentials."""

    reason: str
    is_refused: bool = False


async def run_connection(
    credentials: Credentials,
    outgoing: ObjectReceiveStream[bytes],
    on_open: Callable[[], None],
    on_message: Callable[[ServerMessage], None],
) -> Loss:
    """Hold one connection until either side ends it, and return why.

    Args:
        credentials: URL, key and secret of the server.
        outgoing: Frames to send; closing it closes the connection after all of them are sent.
        on_open: Called once, when the websocket is open.
        on_message: Called with each message of the server.
    """
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(
                f"{credentials.url}/agent",
                headers={"Authorization": f"Bearer {_token(credentials)}"},
                heartbeat=HEARTBEAT,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_HANDSHAKE_LIMIT),
            ) as socket,
        ):
            on_open()
            return await _exchange(socket, outgoing, on_message)
    except aiohttp.WSServerHandshakeError as error:
        if error.status in (401, 403):
            return Loss(
                reason=f"{credentials.url} refused API key {credentials.api_key!r} with status {error.status}: key and "
                "secret must be those of that server, and the clocks of both machines right",
                is_refused=True,
            )
        return Loss(
            reason=f"{credentials.url}/agent answered with status {error.status}, not with a websocket: is it a "
            "LiveKit server?"
        )
    except (aiohttp.ClientError, OSError) as error:
        return Loss(reason=f"no connection to {credentials.url}: {why_unreachable(error)}")


async def _exchange(
    socket: ClientWebSocketResponse, outgoing: ObjectReceiveStream[bytes], on_message: Callable[[ServerMessage], None]
) -> Loss:
    async def write() -> None:
        try:
            async for frame in outgoing:
                await socket.send_bytes(frame)
        except OSError as error:  # aiohttp's reset error is one; the reading side ends too and reports the reason
            logger.debug("sending failed: %s", error)
        await socket.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        loss = await _read(socket, on_message)
        tasks.cancel_scope.cancel()
    return loss


async def _read(socket: ClientWebSocketResponse, on_message: Callable[[ServerMessage], None]) -> Loss:
    from aiohttp import WSMsgType

    said = ""
    while True:
        frame = await socket.receive()
        if frame.type is WSMsgType.CLOSE:
            said = f", {frame.extra!r}" if frame.extra else ""
        if frame.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
            break
        if frame.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            continue
        try:
            message = decode(frame.data)
        except WorkerError as error:
            return Loss(reason=str(error))
        if message is not None:
            on_message(message)
    if (broken := socket.exception()) is not None:
        return Loss(reason=f"the connection broke: {str(broken) or type(broken).__name__}")
    return Loss(reason=f"the connection was closed (code {socket.close_code}{said})")


def _token(credentials: Credentials) -> str:
    from livekit import api

    token = api.AccessToken(credentials.api_key, credentials.api_secret)
    return token.with_grants(api.VideoGrants(agent=True)).to_jwt()
