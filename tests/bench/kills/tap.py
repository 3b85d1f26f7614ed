"""A relay between workers and their server that shows each message of the worker protocol with its connection.

Everything else of the server (its API, signalling) goes through as it is; assignments point to the server itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, web
from livekit.protocol.agent import ServerMessage, WorkerMessage

OWN_HEADERS = {"host", "connection", "upgrade", "content-length", "transfer-encoding"}

OnMessage = Callable[[int, WorkerMessage | ServerMessage | None], None]
"""Called with the connection's number and each message; None at the connection's end."""


class Tap:
    """Made by `tapping`; workers get `url`."""

    def __init__(self, server_url: str, on_message: OnMessage, session: ClientSession) -> None:
        self.url = ""
        self._server_url = server_url
        self._on_message = on_message
        self._session = session
        self._connections = 0

    async def relay(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on."""
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in OWN_HEADERS and not name.lower().startswith("sec-websocket")
        }
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await self._relay_socket(request, headers)
        url = self._server_url.replace("ws", "http", 1) + request.path_qs
        async with self._session.request(request.method, url, headers=headers, data=await request.read()) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in OWN_HEADERS}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    async def _relay_socket(self, request: web.Request, headers: dict[str, str]) -> web.WebSocketResponse:
        is_worker = request.path == "/agent"
        self._connections += 1
        number = self._connections
        url = self._server_url + request.path_qs
        async with self._session.ws_connect(url, headers=headers, max_msg_size=0) as up:
            down = web.WebSocketResponse(max_msg_size=0)
            await down.prepare(request)
            answers = asyncio.get_running_loop().create_task(self._answers(number, up, down, is_worker))
            try:
                async for frame in down:
                    if frame.type is WSMsgType.BINARY:
                        if is_worker:
                            self._on_message(number, WorkerMessage.FromString(frame.data))
                        await up.send_bytes(frame.data)
                    elif frame.type is WSMsgType.TEXT:
                        await up.send_str(frame.data)
            except ConnectionError:
                pass  # the other end says the rest
            finally:
                if is_worker:
                    self._on_message(number, None)
                await up.close()
                await answers
        return down

    async def _answers(
        self, number: int, up: ClientWebSocketResponse, down: web.WebSocketResponse, is_worker: bool
    ) -> None:
        try:
            async for frame in up:
                if frame.type is WSMsgType.TEXT:
                    await down.send_str(frame.data)
                elif frame.type is WSMsgType.BINARY:
                    await down.send_bytes(self._shown(number, frame.data) if is_worker else frame.data)
        except ConnectionError:
            pass  # as above
        await down.close()

    def _shown(self, number: int, data: bytes) -> bytes:
        message = ServerMessage.FromString(data)
        self._on_message(number, message)
        if message.HasField("assignment") and not message.assignment.url:
            message.assignment.url = self._server_url
        return message.SerializeToString()


@asynccontextmanager
async def tapping(server_url: str, on_message: OnMessage) -> AsyncIterator[Tap]:
    """Relay for as long as the block runs."""
    async with ClientSession(auto_decompress=False) as session:
        tap = Tap(server_url, on_message, session)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", tap.relay)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            tap.url = f"ws://127.0.0.1:{runner.addresses[0][1]}"
            yield tap
        finally:
            await runner.cleanup()
