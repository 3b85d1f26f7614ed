"""DeepgramTwin: listens on loopback, holds the script, and makes faults on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import anyio
from aiohttp import WSMsgType, web

from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.plugins.deepgram.twin.answers import Answer, Close, Session
from vivavoce.plugins.deepgram.twin.ear import Lexicon, Said, words_of
from vivavoce.plugins.deepgram.twin.flux import FluxSession
from vivavoce.plugins.deepgram.twin.handshake import Refusal, check, has_key, refusal
from vivavoce.plugins.deepgram.twin.listen import NovaSession
from vivavoce.plugins.deepgram.twin.speak import check_speak

LIMIT = 10.0
"""Seconds for which a test waits for a message."""

SILENCE_LIMIT = 10.0
"""Seconds without audio and KeepAlive after which a connection is closed (docs/audio-keep-alive)."""

KEY = "twin-key"


class TwinConnection:
    """The server's half of one websocket.

    Args:
        path, query: Of the handshake.
        note: Called after each message.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.BaseTransport | None,
        path: str,
        query: dict[str, list[str]],
        session: Session,
        note: Callable[[], None],
    ) -> None:
        self.path = path
        self.query = query
        self.session = session
        self.received: list[dict[str, Any]] = []
        """The client's control messages, oldest first."""
        self.sent: list[dict[str, Any]] = []
        """The messages to the client, oldest first."""
        self.audio_bytes = 0
        self.is_over = False
        self._socket = socket
        self._transport = transport
        self._note = note
        self._is_mute = False

    async def send(self, message: dict[str, Any] | str | bytes) -> None:
        """Send a message, or a frame that breaks the protocol."""
        if isinstance(message, dict):
            self.sent.append(message)
            message = json.dumps(message)
        if isinstance(message, str):
            await self._socket.send_str(message)
        else:
            await self._socket.send_bytes(message)

    async def close(self, code: int = 1011, reason: str = "NET-0000") -> None:
        """Close the websocket; code 1005: without a status."""
        if code == 1005:
            await self._socket.send_frame(b"", WSMsgType.CLOSE)
            return
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """End the connection without a close."""
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    def stall(self) -> None:
        """Answer nothing from now on."""
        self._is_mute = True

    async def run(self) -> None:
        """Serve it to its end."""
        try:
            await self._serve()
        except ConnectionError:  # the client has gone, or the test has cut the connection
            return
        finally:
            self.is_over = True
            self._note()

    async def _serve(self) -> None:
        await self._answer(self.session.begin())
        while True:
            try:
                async with asyncio.timeout(SILENCE_LIMIT):
                    frame = await self._socket.receive()
            except TimeoutError:
                await self._answer([Close(1011, "NET-0001")])
                return
            if frame.type is WSMsgType.BINARY:
                self.audio_bytes += len(frame.data)
                answers: Iterable[Answer] = self.session.audio(frame.data)
            elif frame.type is WSMsgType.TEXT:
                self._take(frame.data)
                answers = self.session.text(frame.data)
            else:
                return
            await self._answer(answers)
            self._note()

    def _take(self, text: str) -> None:
        try:
            told = json.loads(text)
        except ValueError:
            return
        if isinstance(told, dict):
            self.received.append(told)

    async def _answer(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            if self._is_mute:
                continue
            if isinstance(answer, Close):
                await self.close(answer.code, answer.reason)
            else:
                await self.send(answer)


class DeepgramTwin:
    """`async with DeepgramTwin() as twin:` and point a client at `twin.url`, with `twin.key`."""

    def __init__(self, *, key: str = KEY) -> None:
        self.key = key
        self.url = ""
        """Such as `"http://127.0.0.1:40123"`, as `base_url` of this plugin and of Deepgram's SDK."""
        self.handshakes: list[tuple[str, dict[str, list[str]], str]] = []
        """Path, query and authorization of each try to connect, also of refused ones."""
        self.spoken: list[tuple[str, dict[str, list[str]]]] = []
        """Text and query of each answered request to `/v1/speak`."""
        self.connections: list[TwinConnection] = []
        """All connections, oldest first, also closed ones."""
        self._lexicon = Lexicon()
        self._refusals: list[Refusal] = []
        self._changed = anyio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/v1/auth/token", self._token)
        app.router.add_get("/{path:.*}", self._serve)
        app.router.add_post("/v1/speak", self._speak)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        for connection in self.connections:
            connection.abort()
        await self._runner.cleanup()

    @property
    def websocket_url(self) -> str:
        """`url` with the scheme `ws`."""
        return "ws" + self.url.removeprefix("http")

    @property
    def connection(self) -> TwinConnection:
        """The newest connection.

        Raises:
            LookupError: There was none.
        """
        if not self.connections:
            raise LookupError("no client has connected yet; wait with connected()")
        return self.connections[-1]

    # --- the script

    def hears(self, *texts: Said | str) -> None:
        """Hear these in the next stretches of sound, one each, whatever the sound is."""
        self._lexicon.script.extend(Said(one) if isinstance(one, str) else one for one in texts)

    def speech(self, text: Said | str, sample_rate: int = 16_000) -> AudioFrame:
        """Return sound that carries these words: the twin hears them in it, each time."""
        return self._lexicon.speech(Said(text) if isinstance(text, str) else text, sample_rate)

    def level(self, word: Said | str) -> int:
        """Return the sample value that carries one word, for callers that make their own sound."""
        return self._lexicon.level(Said(word) if isinstance(word, str) else word)

    def refuse(self, *statuses: int) -> None:
        """Refuse the next handshakes or requests with these HTTP statuses, one each."""
        self._refusals.extend(map(refusal, statuses))

    # --- for tests

    async def connected(self, count: int = 1) -> TwinConnection:
        """Wait until this many clients have connected, in all; return the newest connection.

        Raises:
            TimeoutError: Not within `LIMIT` seconds.
        """
        await self.until(lambda: len(self.connections) >= count)
        return self.connection

    async def received(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait until clients have sent this many messages of a type; return the last of them.

        Raises:
            TimeoutError: Not within `LIMIT` seconds.
        """
        await self.until(lambda: len(self.messages(kind)) >= count)
        return self.messages(kind)[count - 1]

    def messages(self, kind: str) -> list[dict[str, Any]]:
        """Return the client messages of a type so far, over all connections."""
        return [told for one in self.connections for told in one.received if told.get("type") == kind]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds()`, which is asked after each frame.

        Raises:
            TimeoutError: Not within `LIMIT` seconds.
        """
        with anyio.fail_after(LIMIT):
            while not holds():
                await self._changed.wait()

    # --- the server

    def _note(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

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
        session: Session = kind(query, self._lexicon, request_id)
        connection = TwinConnection(socket, request.transport, request.path, query, session, self._note)
        self.connections.append(connection)
        self._note()
        await connection.run()
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
