"""CartesiaTwin: listens on loopback, holds the script, and makes faults on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable
from typing import Any

import anyio
from aiohttp import WSMsgType, web
from anyio.abc import TaskGroup

from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.testing import twin_connection
from vivavoce.pipelines.testing.hearing_server import HearingServer
from vivavoce.pipelines.testing.loopback_server import Abortable
from vivavoce.pipelines.testing.twin_connection import Close
from vivavoce.plugins.cartesia.models import LANGUAGES
from vivavoce.plugins.cartesia.twin.context import Faulty, TwinContext, TwinFault, TwinPace
from vivavoce.plugins.cartesia.twin.ink import ManualSession, TurnsSession
from vivavoce.plugins.cartesia.twin.requests import Refusal, checked

MODELS = (*LANGUAGES, "sonic-latest")

Ears = type[ManualSession | TurnsSession]

EARS: dict[str, Ears] = {"/stt/websocket": ManualSession, "/stt/turns/websocket": TurnsSession}

IDLE = (20.0, (Close(1000, "idle"),))
"""Seconds without a frame after which a recogniser's connection is closed, and how (api-reference/stt/stt)."""

TITLES = {401: "Unauthorized", 402: "Payment required", 403: "Forbidden", 429: "Too many concurrent requests"}
CODES = {429: "concurrency_limited"}


class TwinConnection:
    """The server's half of one websocket with voices."""

    def __init__(self, twin: CartesiaTwin, socket: web.WebSocketResponse, request: web.Request, version: str) -> None:
        self.version = version
        """The version of the API that the client named."""
        self.is_over = False
        self._twin = twin
        self._socket = socket
        self._transport = request.transport
        self._contexts: dict[str, TwinContext] = {}

    async def run(self) -> None:
        """Serve until the client leaves or a fault ends it."""
        try:
            async with anyio.create_task_group() as tasks:
                async for message in self._socket:
                    if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                        await self._take(message.data, tasks)
                tasks.cancel_scope.cancel()
        finally:
            self.is_over = True
            self._twin.changed()

    async def send_raw(self, frame: str) -> None:
        """Send a frame unchanged, unless the connection is over."""
        if self._socket.closed:
            return
        try:
            await self._socket.send_str(frame)
        except ConnectionError:  # the client has left without a close
            return

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close as the protocol says."""
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """End the connection without a word."""
        if self._transport is not None and isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    async def _take(self, data: str | bytes, tasks: TaskGroup) -> None:
        context_id = None
        try:
            try:
                message = json.loads(data)
            except ValueError:
                raise Refusal(400, "Invalid request", "The message is not JSON.") from None
            if not isinstance(message, dict):
                raise Refusal(400, "Invalid request", "The message must be an object.")
            context_id = message.get("context_id")
            self._twin.note(message)
            if message.get("cancel"):
                if (cancelled := self._contexts.get(str(context_id))) is not None:
                    cancelled.cancel()
                return
            await self._speak(message, tasks)
        except Refusal as refusal:
            await self._refuse(refusal, context_id)
        finally:
            self._twin.changed()

    async def _speak(self, message: dict[str, Any], tasks: TaskGroup) -> None:
        twin = self._twin
        request = checked(message, twin.voices, MODELS)
        context = self._contexts.get(request.context_id)
        if context is not None:
            if context.is_over:
                raise Refusal(400, "Invalid request", "The context has expired.")
            context.add(request)
            return
        if twin.max_contexts and len(twin.live) >= twin.max_contexts:
            text = "You have exceeded your plan's concurrency limit."
            raise Refusal(429, TITLES[429], text, CODES[429])

        async def send(fields: dict[str, Any]) -> None:
            common = {"context_id": request.context_id, "done": False, "status_code": 206}
            await self.send_raw(json.dumps({**common, **fields}))
            twin.changed()

        context = TwinContext(len(twin.contexts), request, send, twin.pace, twin.next_fault())
        context.add(request)
        self._contexts[context.id] = context
        twin.contexts.append(context)
        tasks.start_soon(self._run, context)

    async def _run(self, context: TwinContext) -> None:
        try:
            await context.run()
        except Faulty as due:
            await self._do(due.fault, context)
        finally:
            self._twin.changed()

    async def _do(self, fault: TwinFault, context: TwinContext) -> None:
        if fault.kind == "error":
            await self._refuse(fault.error, context.id)
        elif fault.kind == "close":
            await self.close(fault.code, fault.reason)
        elif fault.kind == "cut":
            self.abort()
        elif fault.kind == "garbage":
            await self.send_raw('{"type": "chunk", ')

    async def _refuse(self, refusal: Refusal, context_id: object) -> None:
        fields = refusal.fields(self.version, new_id("request"))
        of_context = {"context_id": context_id} if isinstance(context_id, str) else {}
        await self.send_raw(
            json.dumps({"type": "error", "done": True, "status_code": refusal.status, **fields, **of_context})
        )


class CartesiaTwin(HearingServer[TwinConnection]):
    """`async with CartesiaTwin() as twin:` and point a client at `twin.url`.

    Args:
        voices: The voices that exist; empty: any.
        max_contexts: Contexts that may live at a time; 0: any number.
    """

    key = "sk_car_twin"
    """The key that it accepts."""

    def __init__(self, *, voices: Collection[str] = (), max_contexts: int = 0, pace: TwinPace | None = None) -> None:
        super().__init__()
        self.voices = voices
        self.max_contexts = max_contexts
        self.pace = pace or TwinPace()
        self.handshakes: list[dict[str, str]] = []
        """Path, query and headers (with names in lower case) of each try to connect, also of refused ones."""
        self.ears: list[twin_connection.TwinConnection] = []
        """All connections of recognisers, likewise."""
        self.received: list[dict[str, Any]] = []
        """The clients' messages, oldest first."""
        self.contexts: list[TwinContext] = []
        """All contexts, oldest first, also those that are over."""
        self.faults: list[TwinFault | None] = []
        """For the next contexts, one each; None: no fault."""
        self._refusals: list[int] = []

    def _route(self, router: web.UrlDispatcher) -> None:
        router.add_get("/voices", self._list_voices)
        router.add_get("/{path:.*}", self._serve)

    def _all_connections(self) -> Iterable[Abortable]:
        return (*self.connections, *self.ears)

    @property
    def live(self) -> list[TwinContext]:
        """The contexts that are not over."""
        return [context for context in self.contexts if not context.is_over]

    @property
    def ear(self) -> twin_connection.TwinConnection:
        """The newest connection of a recogniser.

        Raises:
            LookupError: There was none.
        """
        if not self.ears:
            raise LookupError("no recogniser has connected yet; wait with until()")
        return self.ears[-1]

    def refuse(self, *statuses: int) -> None:
        """Answer the next handshakes with these HTTP statuses, one each."""
        self._refusals.extend(statuses)

    def next_fault(self) -> TwinFault | None:
        """Take the fault of the next context."""
        return self.faults.pop(0) if self.faults else None

    def note(self, message: dict[str, Any]) -> None:
        """Keep a client's message."""
        self.received.append(message)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        heads = {name.lower(): value for name, value in request.headers.items()}
        self.handshakes.append({**heads, **request.query, "path": request.path})
        version = heads.get("cartesia-version") or request.query.get("cartesia_version", "")
        refusal = self._refusal(request, heads, version)
        if refusal is not None:
            return _refused(refusal, version)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, timeout=0.5)
        await socket.prepare(request)
        if request.path in EARS:
            await self._hear(request, socket, EARS[request.path])
            return socket
        connection = TwinConnection(self, socket, request, version)
        self.connections.append(connection)
        self.changed()
        await connection.run()
        return socket

    async def _hear(
        self, request: web.Request, socket: web.WebSocketResponse, kind: type[ManualSession | TurnsSession]
    ) -> None:
        query = {name: request.query.getall(name) for name in request.query}
        session = kind(query, self._lexicon, new_id("request"))
        connection = twin_connection.TwinConnection(
            socket, request.transport, request.path, query, session, self.changed, idle=IDLE
        )
        self.ears.append(connection)
        self.changed()
        await connection.run()

    async def _list_voices(self, request: web.Request) -> web.StreamResponse:
        """Answer with a page of voices. Source: cartesia 4.2.0, `resources/voices.py` and `pagination.py`."""
        heads = {name.lower(): value for name, value in request.headers.items()}
        version = heads.get("cartesia-version", "")
        refusal = self._refusal(request, heads, version)
        if refusal is not None:
            return _refused(refusal, version)
        voices = sorted(self.voices)[: int(request.query.get("limit", "10"))]
        return web.json_response({"data": [{"id": voice} for voice in voices], "has_more": False})

    def _refusal(self, request: web.Request, heads: dict[str, str], version: str) -> Refusal | None:
        """Return why the handshake or request is refused."""
        if self._refusals:
            status = self._refusals.pop(0)
            return Refusal(status, TITLES.get(status, "Error"), "Refused by the script.", CODES.get(status))
        if request.path not in ("/tts/websocket", "/voices", *EARS):
            return Refusal(404, "Not found", "There is no such endpoint.")
        if not version:
            return Refusal(400, "Invalid request", "The API version is required.")
        bearer = heads.get("authorization", "").removeprefix("Bearer ")
        keys = (bearer, heads.get("x-api-key"), request.query.get("api_key"), request.query.get("access_token"))
        if self.key not in keys:
            return Refusal(401, TITLES[401], "Invalid API key.")
        return None


def _refused(refusal: Refusal, version: str) -> web.Response:
    body = refusal.fields(version, new_id("request"))
    text = json.dumps(body) if "title" in body else body["error"]
    kind = "application/json" if "title" in body else "text/plain"
    return web.Response(status=refusal.status, text=text, content_type=kind)
