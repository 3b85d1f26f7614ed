"""A relay between a worker and its server that records the worker's messages and can disconnect it.

No server returns a worker's reports of its jobs (a LiveKit server lists dispatches without them), so they are read on
the way. Assignments point to the server itself: only the worker's own socket goes through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, web
from livekit.protocol.agent import JobStatus, ServerMessage, UpdateJobStatus, WorkerMessage

from kit.limits import LIMIT
from kit.servers.web import serving


class WorkerTap:
    """`async with WorkerTap(server_url) as tap:` and give the worker `tap.url`.

    Args:
        server_url: Where workers are relayed to.
        room_url: Where assignments point; empty: the server.
    """

    def __init__(self, server_url: str, *, room_url: str = "") -> None:
        self.url = ""
        self.messages: list[WorkerMessage] = []
        self._server_url = server_url
        self._room_url = room_url or server_url
        self._changed = asyncio.Condition()
        self._sockets: set[web.WebSocketResponse] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.url = f"ws://{await stack.enter_async_context(serving('/agent', self._relay))}"
            stack.push_async_callback(self.hang_up)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def hang_up(self) -> None:
        """Close every connection."""
        for socket in list(self._sockets):
            await socket.close()

    async def report(self, status: JobStatus, *, after: int = 0) -> UpdateJobStatus:
        """Wait for a job report of this status among the worker's messages from number `after` on."""
        found = await self._find(lambda m: m.HasField("update_job") and m.update_job.status == status, after)
        return found.update_job

    async def registered(self, *, after: int = 0) -> None:
        """Wait for a registration among the worker's messages from number `after` on."""
        await self._find(lambda message: message.HasField("register"), after)

    async def draining(self) -> None:
        """Wait until the worker says that it drains."""
        await self._find(lambda message: message.update_worker.draining, 0)

    async def _find(self, fits: Callable[[WorkerMessage], bool], after: int) -> WorkerMessage:
        async with asyncio.timeout(LIMIT), self._changed:
            while True:
                for message in self.messages[after:]:
                    if fits(message):
                        return message
                await self._changed.wait()

    async def _relay(self, request: web.Request) -> web.WebSocketResponse:
        headers = {"Authorization": request.headers["Authorization"]}
        async with ClientSession() as session, session.ws_connect(f"{self._server_url}/agent", headers=headers) as up:
            down = web.WebSocketResponse()
            await down.prepare(request)
            self._sockets.add(down)
            answers = asyncio.get_running_loop().create_task(self._answers(up, down))
            try:
                async for frame in down:
                    async with self._changed:
                        self.messages.append(WorkerMessage.FromString(frame.data))
                        self._changed.notify_all()
                    await up.send_bytes(frame.data)
            finally:
                self._sockets.discard(down)
                await up.close()
                await answers
            return down

    async def _answers(self, up: ClientWebSocketResponse, down: web.WebSocketResponse) -> None:
        async for frame in up:
            if frame.type is not WSMsgType.BINARY:
                continue
            message = ServerMessage.FromString(frame.data)
            if message.HasField("assignment") and not message.assignment.url:
                message.assignment.url = self._room_url
            await down.send_bytes(message.SerializeToString())
        await down.close()
