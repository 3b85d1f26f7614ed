"""A server whose behaviour on each connection of a worker is a script of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from aiohttp import web
from livekit.protocol import agent as wire

LIMIT = 60.0

Script = Callable[["Conversation"], Awaitable[None]]


class Conversation:
    """One connection of a worker, for a script; the connection closes when the script returns."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket

    async def read(self) -> wire.WorkerMessage:
        """Return the worker's next message."""
        return wire.WorkerMessage.FromString(await self.socket.receive_bytes(timeout=LIMIT))

    async def read_until(self, fits: Callable[[wire.WorkerMessage], bool]) -> wire.WorkerMessage:
        """Return the worker's next message of a kind."""
        while not fits(message := await self.read()):
            pass
        return message

    async def send(self, message: wire.ServerMessage) -> None:
        """Send a message."""
        await self.socket.send_bytes(message.SerializeToString())

    async def register(self) -> None:
        """Register the worker, as a server should."""
        await self.read_until(lambda message: message.HasField("register"))
        await self.send(wire.ServerMessage(register=wire.RegisterWorkerResponse(worker_id="AW_1")))

    async def until_closed(self) -> None:
        """Read until the worker closes the connection."""
        async with asyncio.timeout(LIMIT):
            async for _ in self.socket:
                pass


class MisbehavingServer:
    """`async with MisbehavingServer(first, second) as server:` connection n runs script n, later ones the last script.

    A number in place of a script is the HTTP status with which the connection is refused.

    Args:
        api: Answer to each call of the server API; None: there is none.
    """

    api_key = "devkey"
    api_secret = "devsecret-devsecret-devsecret-devsecret"

    def __init__(self, *scripts: Script | int, api: bytes | None = None) -> None:
        self.url = ""
        self._api = api
        self.connections = 0
        self._scripts = scripts
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/agent", self._serve)
        if self._api is not None:
            app.router.add_post("/{path:.*}", self._answer_api)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"ws://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer_api(self, request: web.Request) -> web.Response:
        return web.Response(body=self._api)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        if isinstance(script, int):
            return web.Response(status=script)
        socket = web.WebSocketResponse(timeout=1.0)
        await socket.prepare(request)
        await script(Conversation(socket))
        await socket.close()
        return socket
