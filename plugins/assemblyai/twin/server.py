"""AssemblyAITwin: listens on loopback, holds the script, and makes faults on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from aiohttp import web

from vivavoce.pipelines.testing.hearing_server import HearingServer
from vivavoce.pipelines.testing.twin_connection import Answer, TwinConnection, TwinSession
from vivavoce.plugins.assemblyai.twin.session import TurnSession, failure
from vivavoce.plugins.assemblyai.twin.settings import Refused, Settings

EXPIRED = (3 * 3600.0, failure(3008, "Session Expired: Maximum session duration exceeded"))
"""Seconds without a message after which a session ends, and how; the vendor counts all of its time."""

KEY = "twin-key"


class Refusal:
    """A session that is refused behind the handshake; the answer comes with its beginning."""

    key_terms: list[str]

    def __init__(self, code: int, text: str) -> None:
        self.key_terms = []
        self._answers = failure(code, text)

    def begin(self) -> Iterator[Answer]:
        """Say why, and close."""
        return iter(self._answers)

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        """Pass a binary frame over."""
        return iter(())

    def text(self, message: str) -> Iterator[Answer]:
        """Pass a text frame over."""
        return iter(())


class AssemblyAITwin(HearingServer[TwinConnection]):
    """`async with AssemblyAITwin() as twin:` and point a client at `twin.url`, with `twin.key`."""

    def __init__(self, *, key: str = KEY) -> None:
        super().__init__()
        self.key = key
        self.handshakes: list[tuple[str, dict[str, list[str]], str]] = []
        """Path, query and authorization of each try to connect, also of refused ones."""
        self._refusals: list[int | tuple[int, str]] = []

    def _route(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v3/token", self._token)
        router.add_get("/{path:.*}", self._serve)

    # --- the script

    def refuse(self, *refusals: int | tuple[int, str]) -> None:
        """Refuse the next sessions or requests, one each: with an HTTP status, or with an error's code and text."""
        self._refusals.extend(refusals)

    async def fail(self, code: int, text: str) -> None:
        """End the newest session by an error, as the service does."""
        message, close = failure(code, text)
        assert isinstance(message, dict)
        await self.connection.send(message)
        await self.connection.close(code, getattr(close, "reason", ""))

    # --- for tests

    async def received(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait until clients have sent this many messages of a type; return the last of them.

        Raises:
            TimeoutError: Not within the limit of `until()`.
        """
        await self.until(lambda: len(self.messages(kind)) >= count)
        return self.messages(kind)[count - 1]

    def messages(self, kind: str) -> list[dict[str, Any]]:
        """Return the client messages of a type so far, over all connections."""
        return [told for one in self.connections for told in one.received if told.get("type") == kind]

    # --- the server

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        query = {name: request.query.getall(name) for name in request.query}
        authorization = request.headers.get("Authorization", "")
        self.handshakes.append((request.path, query, authorization))
        refused = self._refusals.pop(0) if self._refusals else (404 if request.path != "/v3/ws" else None)
        if isinstance(refused, int):
            return web.json_response({"error": "The session was refused."}, status=refused)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, timeout=0.5)
        await socket.prepare(request)
        session = Refusal(*refused) if refused else self._session(query, authorization)
        connection = TwinConnection(socket, request.transport, request.path, query, session, self.changed, idle=EXPIRED)
        self.connections.append(connection)
        self.changed()
        await connection.run()
        return socket

    async def _token(self, request: web.Request) -> web.StreamResponse:
        """Answer with a temporary token: https://www.assemblyai.com/docs/streaming/api-spec/generate-streaming-token.

        It is none that the twin takes. The status of a wrong key is that of the vendor's other requests.
        """
        refused = self._refusals.pop(0) if self._refusals else None
        if isinstance(refused, int):
            return web.json_response({"error": "The request was refused."}, status=refused)
        if request.headers.get("Authorization", "") != self.key:
            return web.json_response({"error": "Authentication error, API token missing/invalid"}, status=401)
        seconds = int(request.query.get("expires_in_seconds", "0"))
        if not 1 <= seconds <= 600:
            return web.json_response({"error": "expires_in_seconds must be between 1 and 600"}, status=400)
        return web.json_response({"token": str(uuid4()), "expires_in_seconds": seconds})

    def _session(self, query: dict[str, list[str]], authorization: str) -> TwinSession:
        """Return the session, or its refusal: the vendor checks key and settings behind the handshake."""
        given = query.get("token", [authorization])[0]
        if given != self.key:
            why = "Invalid API key" if given else "Missing Authorization header"
            return Refusal(1008, f"Unauthorized Connection: {why}")
        try:
            settings = Settings(query)
        except Refused as refused:
            return Refusal(3006, f"User Input Validation Error: {refused}")
        return TurnSession(settings, self._lexicon, str(uuid4()))
