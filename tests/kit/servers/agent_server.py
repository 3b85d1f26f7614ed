"""The server half of LiveKit's agent protocol, scripted: a test sets its answers and reads the workers' messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from aiohttp import web
from google.protobuf import json_format
from livekit.protocol import agent as wire
from livekit.protocol import models

from kit.servers.web import serving

LIMIT = 60.0
"""Seconds for a message of the worker, where a test names no other limit."""


class AgentServer:
    """`async with AgentServer() as server:` and point a worker at `server.url`. One worker at a time.

    Args:
        hangs_up: Upgrade and close at once, without a register reply.
        writes_text: Send the JSON form.
    """

    api_key = "devkey"
    api_secret = "devsecret-devsecret-devsecret-devsecret"

    def __init__(self, *, hangs_up: bool = False, writes_text: bool = False) -> None:
        self.url = ""
        self.tokens: list[str] = []
        self.messages: list[wire.WorkerMessage] = []
        self._hangs_up = hangs_up
        self._writes_text = writes_text
        self._changed = asyncio.Condition()
        self._socket: web.WebSocketResponse | None = None
        self._stack = AsyncExitStack()

    @property
    def connections(self) -> int:
        """How often a worker has connected."""
        return len(self.tokens)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.url = f"ws://{await stack.enter_async_context(serving('/agent', self._serve))}"
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def send(self, message: wire.ServerMessage) -> None:
        """Send one message to the worker."""
        assert self._socket is not None, "no worker is connected"
        if self._writes_text:
            await self._socket.send_str(json_format.MessageToJson(message))
        else:
            await self._socket.send_bytes(message.SerializeToString())

    async def hang_up(self) -> None:
        """Close the worker's connection."""
        assert self._socket is not None, "no worker is connected"
        await self._socket.close()

    async def offer(self, job_id: str, metadata: str = "") -> wire.AvailabilityResponse:
        """Offer a job and return the answer."""
        request = wire.AvailabilityRequest(job=_job(job_id, metadata))
        await self.send(wire.ServerMessage(availability=request))
        found = await self.heard(lambda message: message.availability.job_id == job_id)
        return found.availability

    async def assign(self, job_id: str, metadata: str = "", url: str = "", token: str = "no-token") -> None:
        """Assign a job; by default its token joins no room."""
        assignment = wire.JobAssignment(job=_job(job_id, metadata), token=token, url=url)
        await self.send(wire.ServerMessage(assignment=assignment))

    async def start(self, job_id: str, metadata: str = "") -> None:
        """Offer and assign a job."""
        answer = await self.offer(job_id, metadata)
        assert answer.available
        await self.assign(job_id, metadata)

    async def terminate(self, job_id: str) -> None:
        """Have the job end."""
        await self.send(wire.ServerMessage(termination=wire.JobTermination(job_id=job_id)))

    async def ended(self, job_id: str, *, limit: float | None = LIMIT) -> wire.UpdateJobStatus:
        """Wait for the job's last report, at most `limit` seconds; None: as long as the caller allows."""
        last = (wire.JS_SUCCESS, wire.JS_FAILED)
        found = await self.heard(lambda m: m.update_job.job_id == job_id and m.update_job.status in last, limit=limit)
        return found.update_job

    async def heard(
        self, fits: Callable[[wire.WorkerMessage], bool], *, after: int = 0, limit: float | None = LIMIT
    ) -> wire.WorkerMessage:
        """Wait for a message of the worker, from number `after` on; `limit` is in seconds, None for none."""
        async with asyncio.timeout(limit), self._changed:
            while True:
                for message in self.messages[after:]:
                    if fits(message):
                        return message
                await self._changed.wait()

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.tokens.append(request.headers["Authorization"].removeprefix("Bearer "))
        if self._hangs_up:
            await socket.close()
            return socket
        self._socket = socket
        async for frame in socket:
            message = wire.WorkerMessage.FromString(frame.data)
            if message.HasField("register"):
                await self.send(wire.ServerMessage(register=wire.RegisterWorkerResponse(worker_id="AW_1")))
            async with self._changed:
                self.messages.append(message)
                self._changed.notify_all()
        return socket


def _job(job_id: str, metadata: str) -> wire.Job:
    return wire.Job(id=job_id, room=models.Room(name=f"room-of-{job_id}"), metadata=metadata)
