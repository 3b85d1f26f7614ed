"""The sending half of a websocket: a bounded queue, so that a client which never reads harms only itself."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import ClientConnectionError, web
from livekit.protocol import rtc

from vivavoce.agents.dev_room.tasks import TaskSet

logger = logging.getLogger(__name__)

FINISH_LIMIT = 1.0


class SocketLink:
    """Sends frames in order without making the sender wait; `finish()` or `abort()` ends it."""

    def __init__(
        self, ws: web.WebSocketResponse, transport: asyncio.Transport | None, tasks: TaskSet, *, max_queued: int
    ) -> None:
        self._ws = ws
        self._transport = transport
        self._queue: asyncio.Queue[bytes | str | None] = asyncio.Queue(max_queued)
        self._is_finishing = False
        self.finished = tasks.spawn_task(self._write(), name="websocket writer")

    def put(self, frame: bytes | str) -> None:
        """Queue one frame; a full queue drops the connection."""
        if not self._is_finishing:
            self._enqueue(frame)

    def finish(self) -> None:
        """Close the websocket once the queue has been sent."""
        if not self._is_finishing:
            self._is_finishing = True
            self._enqueue(None)

    def _enqueue(self, frame: bytes | str | None) -> None:
        try:
            self._queue.put_nowait(frame)
        except asyncio.QueueFull:
            logger.warning("a client does not read: disconnected with %d messages waiting", self._queue.qsize())
            self.abort()

    def abort(self) -> None:
        """Drop the connection now."""
        self._is_finishing = True
        self.finished.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def aclose(self) -> None:
        """End with the reading half: the queue of `finish()` gets a moment, all else is dropped."""
        if self._is_finishing:
            await asyncio.wait({self.finished}, timeout=FINISH_LIMIT)
        self._is_finishing = True
        self.finished.cancel()

    async def _write(self) -> None:
        try:
            while (frame := await self._queue.get()) is not None:
                if isinstance(frame, str):
                    await self._ws.send_str(frame)
                else:
                    await self._ws.send_bytes(frame)
            await self._ws.close()
        except (ClientConnectionError, ConnectionError) as exc:
            logger.debug("websocket gone: %s", exc)


class SignalLink(SocketLink):
    """The sending half of a participant's websocket."""

    def send(self, response: rtc.SignalResponse) -> None:
        self.put(response.SerializeToString())
