"""ScriptedRealtimeServer: listens on loopback, holds the script, and makes faults on demand."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from vivavoce.pipelines.testing.loopback_server import LoopbackServer
from vivavoce.pipelines.testing.realtime_server.connection import ServedConnection
from vivavoce.pipelines.testing.realtime_server.script import (
    AskedFor,
    Mind,
    Script,
    ScriptedAnswer,
    ScriptedWords,
    Voice,
)
from vivavoce.pipelines.testing.realtime_server.settings import Settings


class ScriptedRealtimeServer(LoopbackServer[ServedConnection]):
    """`async with ScriptedRealtimeServer() as server:` and point a client at `server.url`.

    Args:
        mind: Makes the answers that are not queued; without one the n-th request gets the n-th answer.
        voice: Makes the model's audio, word by word; else it is a tone as long as the words.
    """

    def __init__(self, *, mind: Mind | None = None, voice: Voice | None = None) -> None:
        super().__init__(path="/v1")
        self.handshakes: list[dict[str, str]] = []
        """Query and `authorization` of each try to connect, also of refused ones."""
        self._script = Script(mind, voice)
        self._refusals: list[int] = []

    @property
    def asked(self) -> list[AskedFor]:
        """The contexts of the requests so far, oldest first, over all connections."""
        return self._script.asked

    def answers(self, *answers: ScriptedAnswer | str) -> None:
        """Play these next, one a request."""
        self._script.answers.extend(ScriptedAnswer(text=one) if isinstance(one, str) else one for one in answers)

    def hears(self, *words: ScriptedWords | str) -> None:
        """Use these as the transcripts of the user's next pieces of audio, one a commit."""
        self._script.words.extend(ScriptedWords(text=one) if isinstance(one, str) else one for one in words)

    def refuse(self, *statuses: int) -> None:
        """Answer the next handshakes with these HTTP statuses, one each."""
        self._refusals.extend(statuses)

    async def received(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait until clients have sent this many events of a type; return the last of them.

        Raises:
            TimeoutError: Not within 10 seconds.
        """
        await self.until(lambda: len(self.events(kind)) >= count)
        return self.events(kind)[count - 1]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the client events of a type so far, over all connections."""
        return [event for one in self.connections for event in one.received if event.get("type") == kind]

    def _route(self, router: web.UrlDispatcher) -> None:
        router.add_get("/{path:.*}", self._serve)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        handshake = dict(request.query)
        for name in ("Authorization", "api-key"):
            if name in request.headers:
                handshake[name.lower()] = request.headers[name]
        self.handshakes.append(handshake)
        if self._refusals:
            return _refusal(self._refusals.pop(0))
        if not request.path.endswith("/realtime"):
            return _refusal(404)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, timeout=0.5)
        await socket.prepare(request)
        is_transcription = request.query.get("intent") == "transcription"
        settings = Settings(request.query.get("model", ""), is_transcription=is_transcription)
        connection = ServedConnection(socket, request.transport, settings, self._script, self.changed)
        self.connections.append(connection)
        self.changed()
        await connection.run()
        return socket


def _refusal(status: int) -> web.Response:
    codes = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}
    code = codes.get(status, "server_error" if status >= 500 else "invalid_request_error")
    error = {"type": "invalid_request_error", "code": code, "message": f"Refused by the script: {code}.", "param": None}
    return web.Response(status=status, text=json.dumps({"error": error}), content_type="application/json")
