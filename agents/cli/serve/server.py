"""The server of `vivavoce serve`: the vendor's webhook and its media streams over HTTP, by aiohttp."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.cli.given import is_here
from vivavoce.agents.cli.serve.calls import Calls
from vivavoce.agents.transports.media_stream.admission import Admission
from vivavoce.agents.transports.media_stream.transport import wait_for_start
from vivavoce.agents.transports.media_stream.webhook import TOKEN, Webhook, WebhookError, WebRequest
from vivavoce.agents.transports.media_stream.wire import Message
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, WorkerError
from vivavoce.pipelines.core.ports import why_no_port

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger(__name__)

MOST_BODY = 64 * 1024
"""Bytes of a webhook's body."""
MOST_MESSAGE = 1024 * 1024
"""Bytes of a message of a stream; vendors send 20 ms each time."""
CLOSE_LIMIT = 2.0
"""Seconds for a socket's or the server's close."""
MOST_SHOWN = 80
"""Characters of a wrong address in the log."""
MOST_REFUSED = 20
"""Wrong addresses in the log, each once."""
MOST_REASON = 123
"""Bytes of the reason of a WebSocket's close (RFC 6455, section 5.5)."""
HEARTBEAT = 20.0
NOT_ADMITTED = 1008
"""Close code of a stream without a token that holds: a policy was violated."""


class CallServer:
    """Answers one vendor.

    Args:
        public_url: The address under which the vendor reaches this server: its signatures are of that address.
        heartbeat: Seconds without a message after which a vendor is asked whether it is there; it has half of that to
            answer.
    """

    def __init__(
        self,
        webhook: Webhook,
        calls: Calls,
        admission: Admission,
        public_url: str,
        *,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._webhook = webhook
        self._calls = calls
        self._admission = admission
        self._heartbeat = heartbeat
        self._public_url = checked_public_url(public_url)
        self._path = urlsplit(self._public_url).path
        self._refused: set[tuple[str, str]] = set()
        self._stream_url = f"ws{self._public_url.removeprefix('http')}/{webhook.name}/stream"

    @property
    def webhook_url(self) -> str:
        """The address for the vendor's settings."""
        return f"{self._public_url}/{self._webhook.name}"

    async def run(self, host: str, port: int, *, task_status: TaskStatus[int] = TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; `started(port)` once the port is open.

        Raises:
            WorkerError: The port cannot be opened.
        """
        from aiohttp import web

        app = web.Application(client_max_size=MOST_BODY)
        for path in {"", self._path}:  # a proxy may have taken the path of the public address away, or not
            app.router.add_post(f"{path}/{self._webhook.name}", self._answer)
            app.router.add_get(f"{path}/{self._webhook.name}", self._answer)
            app.router.add_get(f"{path}/{self._webhook.name}/stream", self._stream)
        app.router.add_route("*", "/{path:.*}", self._refuse)
        if self._webhook.name != "raw" and self._public_url.startswith("http:") and not is_here(self._public_url):
            logger.warning(
                "%s opens streams by wss alone, and --public-url begins with http: only `vivavoce call` gets through; "
                "put TLS in front, and give its https address",
                self._webhook.name,
            )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_LIMIT)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                raise WorkerError(why_no_port(error, host, port, option="port")) from error
            task_status.started(int(runner.addresses[0][1]))
            await anyio.Event().wait()
        finally:
            with anyio.move_on_after(CLOSE_LIMIT, shield=True):
                await runner.cleanup()

    # --- inside

    async def _answer(self, request: web.Request) -> web.Response:
        """Answer a webhook: by a stream, or by an error, after which the vendor takes its own fallback."""
        from aiohttp import web

        asked = self._request_of(request, await request.read())
        try:
            self._webhook.check(asked)
            call = self._webhook.call(asked)
        except WebhookError as error:
            logger.warning("a request to the webhook of %s was refused: %s", self._webhook.name, error)
            return web.Response(status=403, text=f"{error}\n")
        if not self._calls.has_room(self._admission.waiting):
            logger.warning("a call was refused: %s", self._calls.why_full(self._admission.waiting))
            return web.Response(status=503, headers={"Retry-After": "5"}, text="no call can be taken now\n")
        answer = self._webhook.answer(call, self._stream_url, self._admission.mint(call))
        return web.Response(text=answer.body, content_type=answer.content_type, charset="utf-8")

    async def _refuse(self, request: web.Request) -> web.Response:
        """Refuse a request that is for no address of ours; a number's settings may have a wrong one."""
        from aiohttp import web

        asked = request.method, request.path[:MOST_SHOWN]
        if asked not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(asked)
            logger.warning("a request %s %r was refused: the webhook is %s, by POST", *asked, self.webhook_url)
        return web.Response(status=404, text="not found\n")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Carry one call over a WebSocket."""
        from aiohttp import web

        try:
            self._webhook.check_stream(self._request_of(request, b"", scheme="ws"))
        except WebhookError as error:
            logger.warning("a stream of %s was refused: %s", self._webhook.name, error)
            return web.Response(status=403, text=f"{error}\n")
        websocket = web.WebSocketResponse(
            max_msg_size=MOST_MESSAGE, timeout=CLOSE_LIMIT, heartbeat=self._heartbeat, compress=False
        )
        if not websocket.can_prepare(request):
            return web.Response(status=426, headers={"Upgrade": "websocket"}, text="this address is a WebSocket\n")
        await websocket.prepare(request)
        socket = ServerSocket(websocket)
        try:
            wire = self._webhook.wire()
            started = await wait_for_start(socket, wire)
            parameters = dict(started.parameters)
            if self._admission.admit(parameters.pop(TOKEN, "")) is None:
                raise RoomError("it has no token that holds: each admits one stream, once, within 30 s")
            if self._calls.is_stopped:
                raise RoomError("the server ends")
        except RoomError as error:
            logger.warning("a stream of %s was closed: %s", self._webhook.name, error)
            await socket.refuse(str(error))
            return websocket
        await self._calls.hold(socket, wire, started.with_parameters(parameters))
        return websocket

    def _request_of(self, request: web.Request, body: bytes, *, scheme: str = "http") -> WebRequest:
        """Return the request with the address that the vendor called, which a proxy before us may have changed."""
        asked = request.rel_url.raw_path_qs
        if asked.startswith(f"{self._path}/{self._webhook.name}"):
            asked = asked[len(self._path) :]
        url = f"{self._public_url}{asked}"
        headers = {name.lower(): value for name, value in request.headers.items()}
        return WebRequest(method=request.method, url=f"{scheme}{url.removeprefix('http')}", headers=headers, body=body)


class ServerSocket:
    """A WebSocket that a vendor has opened; the port `MediaSocket`."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket

    async def receive(self) -> Message | None:
        """Return the next message; None once the socket is closed."""
        from aiohttp import WSMsgType

        message = await self._websocket.receive()
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            data: Message = message.data
            return data
        return None

    async def send(self, message: Message) -> None:
        """Send a message."""
        if isinstance(message, str):
            await self._websocket.send_str(message)
        else:
            await self._websocket.send_bytes(message)

    async def close(self) -> None:
        """Close it."""
        await self._websocket.close()

    async def refuse(self, reason: str) -> None:
        """Close it, since it may not be here."""
        told = reason.encode("ascii", "replace")[:MOST_REASON]
        await self._websocket.close(code=NOT_ADMITTED, message=told)


def checked_public_url(url: str) -> str:
    """Return the address without a slash at its end.

    Raises:
        ConfigurationError: It is none.
    """
    parts = urlsplit(url)
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not parts.netloc or not is_plain:
        raise ConfigurationError(
            f"--public-url must be the https address under which the vendor reaches this server, got {url!r}"
        )
    return url.rstrip("/")
