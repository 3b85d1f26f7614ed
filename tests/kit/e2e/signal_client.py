"""Raw clients of a room server's websockets, for messages that no SDK would ever send or show."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType
from livekit.api import AccessToken, VideoGrants
from livekit.protocol import agent, rtc

from kit.e2e.room_endpoint import RoomEndpoint

LIMIT = 60.0

StartServer = Callable[..., Awaitable[RoomEndpoint]]


def join_parameter(request: rtc.JoinRequest, *, compress: bool = False) -> str:
    """Wrap a join request as the `join_request` query parameter."""
    inner = request.SerializeToString()
    wrapped = rtc.WrappedJoinRequest(
        compression=rtc.WrappedJoinRequest.GZIP if compress else rtc.WrappedJoinRequest.NONE,
        join_request=gzip.compress(inner) if compress else inner,
    )
    return base64.urlsafe_b64encode(wrapped.SerializeToString()).decode().rstrip("=")


class SignalClient:
    """A participant that only signals: `async with SignalClient(http, endpoint, token) as client`."""

    def __init__(
        self, http: ClientSession, endpoint: RoomEndpoint, token: str, request: rtc.JoinRequest | None = None
    ) -> None:
        self._http = http
        self._url = f"{endpoint.url}/rtc/v1"
        self._params = {"access_token": token, "join_request": join_parameter(request or rtc.JoinRequest())}
        self._ws: ClientWebSocketResponse | None = None
        self.seen: list[str] = []
        """Kinds of all messages so far, in order."""

    @property
    def ws(self) -> ClientWebSocketResponse:
        assert self._ws is not None
        return self._ws

    async def __aenter__(self) -> Self:
        self._ws = await self._http.ws_connect(self._url, params=self._params)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.ws.close()

    async def send(self, request: rtc.SignalRequest) -> None:
        await self.ws.send_bytes(request.SerializeToString())

    async def next(self, kind: str, limit: float = LIMIT) -> rtc.SignalResponse:
        """Read until a message of that kind comes, and return it; earlier ones are only recorded."""
        async with asyncio.timeout(limit):
            while True:
                message = await self.ws.receive()
                last = self.seen[-20:]
                assert message.type is WSMsgType.BINARY, f"waited for {kind}, got {message.type!r} after {last}"
                response = rtc.SignalResponse.FromString(message.data)
                self.seen.append(response.WhichOneof("message") or "")
                if self.seen[-1] == kind:
                    return response

    async def closed(self, limit: float = LIMIT) -> None:
        """Read until the server has closed the websocket."""
        async with asyncio.timeout(limit):
            while True:
                message = await self.ws.receive()
                if message.type is not WSMsgType.BINARY:
                    assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR)
                    return
                self.seen.append(rtc.SignalResponse.FromString(message.data).WhichOneof("message") or "")


class WorkerClient:
    """A minimal agent worker: registers, then follows the test.

    Args:
        settles: Whether it waits until it may be offered jobs; no offer waits for it then.
    """

    def __init__(
        self,
        http: ClientSession,
        endpoint: RoomEndpoint,
        *,
        agent_name: str = "",
        grants: VideoGrants | None = None,
        job_type: agent.JobType = agent.JT_ROOM,
        settles: bool = True,
    ) -> None:
        self._settles = settles
        token = AccessToken(endpoint.api_key, endpoint.api_secret).with_grants(grants or VideoGrants(agent=True))
        self._http = http
        self._url = f"{endpoint.url}/agent"
        self._headers = {"Authorization": f"Bearer {token.to_jwt()}"}
        self._register = agent.RegisterWorkerRequest(type=job_type, agent_name=agent_name, version="test")
        self._ws: ClientWebSocketResponse | None = None
        self.id = ""

    @property
    def ws(self) -> ClientWebSocketResponse:
        assert self._ws is not None
        return self._ws

    async def __aenter__(self) -> Self:
        self._ws = await self._http.ws_connect(self._url, headers=self._headers)
        await self.send(agent.WorkerMessage(register=self._register))
        self.id = (await self.next("register")).register.worker_id
        if self._settles:
            await self.settle()  # the real server answers a registration before it enters the worker in its table
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.ws.close()

    async def send(self, message: agent.WorkerMessage) -> None:
        await self.ws.send_bytes(message.SerializeToString())

    async def next(self, kind: str, limit: float = LIMIT) -> agent.ServerMessage:
        """Return the next message, which must be of that kind."""
        async with asyncio.timeout(limit):
            message = await self.ws.receive()
        assert message.type is WSMsgType.BINARY, f"waited for {kind}, got {message!r}"
        found = agent.ServerMessage.FromString(message.data)
        assert found.WhichOneof("message") == kind, f"waited for {kind}, got {found!r}"
        return found

    async def is_asked(self, within: float) -> bool:
        """Tell whether the server says anything within that many seconds."""
        try:
            async with asyncio.timeout(within):
                await self.ws.receive()
        except TimeoutError:
            return False
        return True

    async def offer(self) -> agent.Job:
        """Return the job that is offered next."""
        return (await self.next("availability")).availability.job

    async def answer(self, job: agent.Job, *, available: bool, identity: str = "", terminate: bool = False) -> None:
        answer = agent.AvailabilityResponse(
            job_id=job.id, available=available, participant_identity=identity, terminate=terminate
        )
        await self.send(agent.WorkerMessage(availability=answer))

    async def take_job(self, identity: str = "") -> agent.JobAssignment:
        """Accept the next offer and return the assignment."""
        await self.answer(await self.offer(), available=True, identity=identity)
        return (await self.next("assignment")).assignment

    async def update(self, *, load: float = 0.0, full: bool = False) -> None:
        status = agent.WS_FULL if full else agent.WS_AVAILABLE
        await self.send(agent.WorkerMessage(update_worker=agent.UpdateWorkerStatus(status=status, load=load)))

    async def settle(self) -> None:
        """Wait until the server has read everything sent so far."""
        await self.send(agent.WorkerMessage(ping=agent.WorkerPing(timestamp=1)))
        await self.next("pong")


class Clients:
    """Starts raw clients that are closed when the test ends."""

    def __init__(self, http: ClientSession, stack: AsyncExitStack) -> None:
        self.http = http
        self._stack = stack

    async def join(
        self,
        endpoint: RoomEndpoint,
        identity: str,
        room: str = "r",
        *,
        request: rtc.JoinRequest | None = None,
        **token: Any,
    ) -> SignalClient:
        return await self.join_by(endpoint, endpoint.token(identity, room, **token), request)

    async def join_by(self, endpoint: RoomEndpoint, token: str, request: rtc.JoinRequest | None = None) -> SignalClient:
        """Join with a token that the test was given."""
        return await self._stack.enter_async_context(SignalClient(self.http, endpoint, token, request))

    async def work(self, endpoint: RoomEndpoint, **options: Any) -> WorkerClient:
        return await self._stack.enter_async_context(WorkerClient(self.http, endpoint, **options))
