"""DeepgramTwin: listens on loopback, holds the script, and makes faults on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from aiohttp import web

from vivavoce.pipelines.testing.ear import Said, words_of
from vivavoce.pipelines.testing.hearing_server import HearingServer
from vivavoce.pipelines.testing.loopback_server import Abortable
from vivavoce.pipelines.testing.twin_connection import Close, TwinConnection, TwinSession
from vivavoce.plugins.deepgram.twin.flux import FluxSession
from vivavoce.plugins.deepgram.twin.handshake import Refusal, check, has_key, refusal
from vivavoce.plugins.deepgram.twin.listen import NovaSession
from vivavoce.plugins.deepgram.twin.speak import check_speak
from vivavoce.plugins.deepgram.twin.voice import TwinVoice, check_voice

IDLE = (10.0, (Close(1011, "NET-0001"),))
"""Seconds without audio and KeepAlive after which a connection is closed, and how (docs/audio-keep-alive)."""

KEY = "twin-key"


class DeepgramTwin(HearingServer[TwinConnection]):
    """`async with DeepgramTwin() as twin:` and point a client at `twin.url`, with `twin.key`.

    Args:
        interval: Seconds between the audio of two words of Flux TTS.
    """

    def __init__(self, *, key: str = KEY, interval: float = 0.0) -> None:
        super().__init__()
        self.key = key
        self._interval = interval
        self.handshakes: list[tuple[str, dict[str, list[str]], str]] = []
        """Path, query and authorization of each try to connect, also of refused ones."""
        self.spoken: list[tuple[str, dict[str, list[str]]]] = []
        """Text and query of each answered request to `/v1/speak`."""
        self.voices: list[TwinVoice] = []
        """All connections of Flux TTS, likewise."""
        self._refusals: list[Refusal] = []

    def _route(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/auth/token", self._token)
        router.add_post("/v1/speak", self._speak)
        router.add_get("/v2/speak", self._speak_turns)
        router.add_get("/{path:.*}", self._serve)

    def _all_connections(self) -> Iterable[Abortable]:
        return (*self.connections, *self.voices)

    # --- the script

    def refuse(self, *statuses: int) -> None:
        """Refuse the next handshakes or requests with these HTTP statuses, one each."""
        self._refusals.extend(map(refusal, statuses))

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
        request_id = str(uuid4())
        refused = self._refusals.pop(0) if self._refusals else check(request.path, query, authorization, self.key)
        if refused is not None:
            return _refused(refused, request_id)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, timeout=0.5)
        socket.headers["dg-request-id"] = request_id
        await socket.prepare(request)
        kind = FluxSession if request.path == "/v2/listen" else NovaSession
        session: TwinSession = kind(query, self._lexicon, request_id)
        connection = TwinConnection(socket, request.transport, request.path, query, session, self.changed, idle=IDLE)
        self.connections.append(connection)
        self.changed()
        await connection.run()
        return socket

    async def _speak_turns(self, request: web.Request) -> web.StreamResponse:
        query = {name: request.query.getall(name) for name in request.query}
        authorization, request_id = request.headers.get("Authorization", ""), str(uuid4())
        self.handshakes.append((request.path, query, authorization))
        refused = self._refusals.pop(0) if self._refusals else check_voice(query)
        if not has_key(authorization, self.key):
            refused = refusal(401)
        if refused is not None:
            return _refused(refused, request_id)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, timeout=0.5)
        socket.headers["dg-request-id"] = request_id
        await socket.prepare(request)
        transport = request.transport
        abort = transport.abort if isinstance(transport, asyncio.Transport) else socket.close
        voice = TwinVoice(socket, abort, query, self._lexicon, self.changed, self._interval)
        self.voices.append(voice)
        self.changed()
        await voice.run()
        return socket

    async def _token(self, request: web.Request) -> web.StreamResponse:
        """Answer the try of a key; the fields of a good one: https://developers.deepgram.com/docs/authenticating."""
        refused = self._refusals.pop(0) if self._refusals else None
        if refused is None and not has_key(request.headers.get("Authorization", ""), self.key):
            refused = refusal(401)
        if refused is not None:
            return _refused(refused, str(uuid4()))
        return web.json_response({"api_key_id": str(uuid4()), "scopes": ["usage:write"]})

    async def _speak(self, request: web.Request) -> web.StreamResponse:
        query = {name: request.query.getall(name) for name in request.query}
        authorization, request_id = request.headers.get("Authorization", ""), str(uuid4())
        self.handshakes.append((request.path, query, authorization))
        text = (await request.json()).get("text")
        refused = self._refusals.pop(0) if self._refusals else check_speak(query, text)
        if not has_key(authorization, self.key):
            refused = refusal(401)
        if refused is not None:
            return _refused(refused, request_id)
        rate = int(query.get("sample_rate", ["24000"])[0])
        heads = {"dg-request-id": request_id, "dg-char-count": str(len(text)), "dg-model-name": query["model"][0]}
        response = web.StreamResponse(headers={"Content-Type": f"audio/l16;rate={rate};channels=1", **heads})
        await response.prepare(request)
        for word in words_of(Said(text)):
            await response.write(self._lexicon.speech(word, rate).data)
        self.spoken.append((text, query))
        return response


def _refused(answer: Refusal, request_id: str) -> web.Response:
    body = {"err_code": answer.code, "err_msg": answer.text, "request_id": request_id}
    heads = {"dg-request-id": request_id, "dg-error": answer.text}
    return web.Response(status=answer.status, text=json.dumps(body), content_type="application/json", headers=heads)
