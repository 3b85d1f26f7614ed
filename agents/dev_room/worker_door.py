"""The endpoint `/agent`: the websocket of one worker, in protobuf or in JSON, as the worker chooses."""

from __future__ import annotations

import asyncio
import logging

import anyio
import anyio.lowlevel
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from livekit.protocol import agent

from vivavoce.agents.dev_room.auth import Authority, Refused
from vivavoce.agents.dev_room.dispatch import Dispatcher
from vivavoce.agents.dev_room.link import SocketLink
from vivavoce.agents.dev_room.options import MAX_QUEUED_SIGNALS, MAX_WORKER_MESSAGE
from vivavoce.agents.dev_room.signalling import server_info
from vivavoce.agents.dev_room.tasks import TaskSet

logger = logging.getLogger(__name__)

REGISTER_LIMIT = 10.0
HEARTBEAT = 10.0


class WorkerLink(SocketLink):
    """The sending half of a worker's websocket; answers in the encoding that the worker used last."""

    _is_json = False

    def answer_in_json(self, is_json: bool) -> None:
        """Use JSON, or protobuf, from now on."""
        self._is_json = is_json

    def send(self, message: agent.ServerMessage) -> None:
        self.put(json_format.MessageToJson(message) if self._is_json else message.SerializeToString())


class WorkerDoor:
    """The HTTP handler of `/agent`."""

    def __init__(self, dispatcher: Dispatcher, authority: Authority, tasks: TaskSet) -> None:
        self._dispatcher = dispatcher
        self._authority = authority
        self._tasks = tasks

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/agent", self.serve)

    def _check(self, request: web.Request) -> None:
        claims = self._authority.verify(request.headers.get("Authorization", ""), request.query.get("access_token", ""))
        if claims.video is None or not claims.video.agent:
            raise Refused(401, "the access token lacks the grant agent: VideoGrants(agent=True)")

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one worker's websocket until it ends."""
        try:
            self._check(request)
        except Refused as exc:
            logger.info("worker refused: %s", exc.text)
            return web.Response(status=exc.status, text=exc.text)
        ws = web.WebSocketResponse(max_msg_size=MAX_WORKER_MESSAGE, compress=False, timeout=1.0, heartbeat=HEARTBEAT)
        if not ws.can_prepare(request).ok:
            return web.Response(status=426, text="this is the agent workers' websocket: start a worker on it")
        await ws.prepare(request)
        link = WorkerLink(ws, request.transport, self._tasks, max_queued=MAX_QUEUED_SIGNALS)
        try:
            await self._serve(ws, link)
        finally:
            await link.aclose()
        return ws

    async def _serve(self, ws: web.WebSocketResponse, link: WorkerLink) -> None:
        try:
            first = _parse(await ws.receive(timeout=REGISTER_LIMIT), link)
        except TimeoutError:
            await _refuse(ws, f"the first message, register, must come within {REGISTER_LIMIT:g} s")
            return
        if first is None or first.WhichOneof("message") != "register":
            await _refuse(ws, "the first message must be register")
            return
        if first.register.type != agent.JT_ROOM:
            await _refuse(ws, "the development room gives jobs of type JT_ROOM only")
            return
        worker = self._dispatcher.add_worker(first.register, link)
        reply = agent.RegisterWorkerResponse(worker_id=worker.id, server_info=server_info())
        link.send(agent.ServerMessage(register=reply))
        try:
            while True:
                await anyio.lowlevel.checkpoint()  # as at the signalling endpoint
                received = await ws.receive()
                if received.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                    return
                message = _parse(received, link)
                if message is not None:
                    self._dispatcher.handle(worker, message)
        finally:
            self._dispatcher.remove_worker(worker)


def _parse(message: WSMessage, link: WorkerLink) -> agent.WorkerMessage | None:
    try:
        if message.type is WSMsgType.TEXT:
            link.answer_in_json(True)
            return json_format.Parse(message.data, agent.WorkerMessage(), ignore_unknown_fields=True)
        if message.type is WSMsgType.BINARY:
            link.answer_in_json(False)
            return agent.WorkerMessage.FromString(message.data)
    except (DecodeError, json_format.ParseError) as exc:
        logger.warning("a worker sent a message that is dropped: %s", type(exc).__name__)
    return None


async def _refuse(ws: web.WebSocketResponse, reason: str) -> None:
    logger.warning("worker refused: %s", reason)
    await asyncio.wait_for(ws.close(code=WSCloseCode.POLICY_VIOLATION, message=reason.encode()), 1.0)
