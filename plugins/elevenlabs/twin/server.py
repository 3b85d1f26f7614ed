"""ElevenLabsTwin: listens on loopback, holds the script, and makes faults on demand."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from aiohttp import web

from vivavoce.pipelines.testing.hearing_server import HearingServer
from vivavoce.pipelines.testing.twin_connection import Close, TwinConnection
from vivavoce.plugins.elevenlabs.twin.context import TwinContext, TwinFault, TwinPace
from vivavoce.plugins.elevenlabs.twin.handshake import SPEAK, Query, Refusal, check, one, refusal
from vivavoce.plugins.elevenlabs.twin.scribe import ScribeSession
from vivavoce.plugins.elevenlabs.twin.speak import SpeakSession, rate_of

IDLE = 15.0
"""Seconds without a message after which the recogniser's session is closed; the voices' one after
`inactivity_timeout`."""

CLOSED = Close(1000, "inactivity")


class ElevenLabsTwin(HearingServer[TwinConnection]):
    """`async with ElevenLabsTwin() as twin:` and point a client at `twin.url`, with `twin.key`.

    Args:
        voices: The voices that exist; empty: any.
    """

    key = "sk_eleven_twin"
    """The key that it accepts."""

    def __init__(self, *, voices: Collection[str] = (), pace: TwinPace | None = None) -> None:
        super().__init__()
        self.voices = voices
        self.pace = pace or TwinPace()
        self.handshakes: list[tuple[str, dict[str, list[str]], str]] = []
        """Path, query and key of each try to connect, also of refused ones."""
        self.contexts: list[TwinContext] = []
        """All contexts of speech, oldest first, also those that are over."""
        self.faults: list[TwinFault | None] = []
        """For the next contexts, one each; None: no fault."""
        self._refusals: list[Refusal] = []

    def _route(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/user", self._user)
        router.add_get("/{path:.*}", self._serve)

    # --- the script

    def refuse(self, *statuses: int) -> None:
        """Refuse the next handshakes or requests with these HTTP statuses, one each."""
        self._refusals.extend(map(refusal, statuses))

    # --- for tests

    @property
    def live(self) -> list[TwinContext]:
        """The contexts that are not over."""
        return [context for context in self.contexts if not context.is_over]

    @property
    def received(self) -> list[dict[str, Any]]:
        """The clients' messages over all connections, those of the oldest one first."""
        return [told for connection in self.connections for told in connection.received]

    # --- the server

    async def _user(self, request: web.Request) -> web.StreamResponse:
        """Answer the try of a key; the fields of a good one: elevenlabs 2.78.0, `types/user.py`."""
        refused = self._refusals.pop(0) if self._refusals else None
        if refused is None and request.headers.get("xi-api-key") != self.key:
            refused = Refusal(401, "invalid_api_key", "Invalid API key")
        if refused is not None:
            return web.json_response(refused.body, status=refused.status)
        return web.json_response({"user_id": "twin", "subscription": {"tier": "free", "status": "active"}})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        query = {name: request.query.getall(name) for name in request.query}
        key = request.headers.get("xi-api-key", "") or one(query, "token")
        self.handshakes.append((request.path, query, key))
        refused = self._refusals.pop(0) if self._refusals else check(request.path, query)
        if refused is not None:
            return web.json_response(refused.body, status=refused.status)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, timeout=0.5)
        await socket.prepare(request)
        voice = SPEAK.fullmatch(request.path)
        if voice is None:
            listening = ScribeSession(query, self._lexicon, is_key_right=key == self.key)
            await self._connected(socket, request, query, listening, IDLE).run()
            return socket
        speaking = SpeakSession(query, self._refused(voice[1], key), self._context, self.changed)
        idle = float(one(query, "inactivity_timeout", "20")) + 1
        await speaking.run(self._connected(socket, request, query, speaking, idle))
        return socket

    def _connected(
        self,
        socket: web.WebSocketResponse,
        request: web.Request,
        query: dict[str, list[str]],
        session: SpeakSession | ScribeSession,
        idle: float,
    ) -> TwinConnection:
        path, transport = request.path, request.transport
        connection = TwinConnection(socket, transport, path, query, session, self.changed, idle=(idle, (CLOSED,)))
        self.connections.append(connection)
        self.changed()
        return connection

    def _refused(self, voice: str, key: str) -> tuple[str, str] | None:
        """Return the error of a connection's first message, if any."""
        if key != self.key:
            return "invalid_api_key", "Invalid API key"
        if self.voices and voice not in self.voices:
            return "voice_id_does_not_exist", f"A voice with voice_id {voice} does not exist."
        return None

    def _context(self, first: dict[str, Any], query: Query) -> TwinContext:
        context = TwinContext(
            len(self.contexts),
            first,
            rate=rate_of(query),
            auto=one(query, "auto_mode") == "true",
            inactivity=float(one(query, "inactivity_timeout", "20")),
            pace=self.pace,
            fault=self.faults.pop(0) if self.faults else None,
        )
        self.contexts.append(context)
        return context
