"""AzureTwin: listens on loopback, holds the script, and makes faults on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import anyio
from aiohttp import WSMsgType, web
from anyio.abc import TaskGroup

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.testing.hearing_server import HearingServer
from vivavoce.plugins.azure.twin.answers import Close, Told, answer
from vivavoce.plugins.azure.twin.listen import ListenTurns
from vivavoce.plugins.azure.twin.speak import Faulty, SpeakTurn, TwinFault, TwinPace
from vivavoce.plugins.azure.wire import Frame, read_frame

KEY = "0123456789abcdef0123456789abcdef"

STT_PATH = "/stt/speech/universal/v2"
STT_CONTAINER_PATH = "/speech/recognition/conversation/cognitiveservices/v1"
TTS_PATH = "/tts/cognitiveservices/websocket/v2"
TTS_PATHS = (TTS_PATH, "/cognitiveservices/websocket/v2", "/cognitiveservices/websocket/v1")

VOICES_PATHS = ("/cognitiveservices/voices/list", "/tts/cognitiveservices/voices/list")

REFUSALS = {
    400: "Bad request.",
    401: "Access denied due to invalid subscription key or wrong API endpoint.",
    403: "The token or the key has no right to this resource.",
    404: "Resource not found.",
    429: "The number of parallel requests exceeds the limit of this resource.",
}


class TwinConnection:
    """The server's half of one websocket."""

    def __init__(
        self,
        twin: AzureTwin,
        socket: web.WebSocketResponse,
        transport: asyncio.BaseTransport | None,
        path: str,
        listening: ListenTurns | None,
    ) -> None:
        self.path = path
        self.received: list[Frame] = []
        """The client's frames, oldest first, without audio."""
        self.sent: list[Told] = []
        """The frames to the client, oldest first, without audio."""
        self.audio_bytes = 0
        self.is_over = False
        self.listening = listening
        """The recogniser of a connection that has one."""
        self._twin = twin
        self._socket = socket
        self._transport = transport
        self._turn: SpeakTurn | None = None
        self._context: Frame | None = None
        self._is_mute = False
        self._failures = Failures(provider="azure twin")

    async def run(self) -> None:
        """Serve until the client leaves or a fault ends it."""
        try:
            async with anyio.create_task_group() as tasks:
                async for message in self._socket:
                    if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                        await self._take(message.data, tasks)
                tasks.cancel_scope.cancel()
        except ConnectionError:  # the client has gone, or the test has cut the connection
            return
        finally:
            self.is_over = True
            self._twin.changed()

    async def send(self, one: Told | Close) -> None:
        """Send a frame, or close; nothing is said after the end."""
        if self._is_mute or self._socket.closed:
            return
        try:
            if isinstance(one, Close):
                await self.close(one.code, one.reason)
            elif isinstance(one.message, str):
                self.sent.append(one)
                await self._socket.send_str(one.message)
            else:
                await self._socket.send_bytes(one.message)
        except ConnectionError:  # the client has left without a close
            return
        self._twin.changed()

    async def close(self, code: int = 1011, reason: str = "") -> None:
        """Close as the protocol says."""
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """End the connection without a word."""
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    def stall(self) -> None:
        """Answer nothing from now on."""
        self._is_mute = True

    def messages(self, path: str) -> list[Frame]:
        """Return the client's frames of a kind."""
        return [frame for frame in self.received if frame.path == path]

    async def _take(self, data: str | bytes, tasks: TaskGroup) -> None:
        try:
            frame = read_frame(data, self._failures)
        except ProviderProtocolError:
            await self.close(1002, "No frame.")
            return
        if frame.path == "audio":
            self.audio_bytes += len(frame.body)
        else:
            self.received.append(frame)
        if self.listening is not None:
            for one in self.listening.take(frame):
                await self.send(one)
        elif (refusal := self._take_text(frame, tasks)) is not None:
            await self.send(refusal)
        self._twin.changed()

    def _take_text(self, frame: Frame, tasks: TaskGroup) -> Close | None:
        """Take a frame of a client that wants speech; return the refusal."""
        turn = self._turn if self._turn is not None and self._turn.request == frame.request else None
        if frame.path == "synthesis.context":
            if self._turn is not None and not self._turn.is_over:
                return Close(1007, "A turn is in progress.")
            self._turn = self._twin.new_turn(frame.request, json.loads(frame.body), self.send)
            if not self._turn.rate:
                return Close(1007, "Unsupported audio format.")
            return self._begin(tasks) if self._turn.input is not None else None
        if turn is None or not isinstance(frame.body, str):
            return None
        if frame.path == "ssml":
            return turn.document(frame.body) or self._begin(tasks)
        if frame.path == "text.piece":
            turn.add(frame.body)
        elif frame.path == "text.end":
            turn.finish()
        elif frame.path == "synthesis.control" and json.loads(frame.body).get("action") == "stop":
            turn.stop()
        return None

    def _begin(self, tasks: TaskGroup) -> Close | None:
        assert self._turn is not None
        if self._twin.voices and self._turn.voice not in self._twin.voices:
            return Close(1007, f"Unsupported voice {self._turn.voice}.")
        tasks.start_soon(self._run, self._turn)
        return None

    async def _run(self, turn: SpeakTurn) -> None:
        try:
            await turn.run()
        except Faulty as due:
            if due.fault.kind == "close":
                await self.close(due.fault.code, due.fault.reason)
            elif due.fault.kind == "cut":
                self.abort()
            elif not self._socket.closed:
                await self._socket.send_bytes(b"\xff\xff of no frame")
        finally:
            self._twin.changed()


class AzureTwin(HearingServer[TwinConnection]):
    """`async with AzureTwin() as twin:` and point a client at `twin.url`, `twin.stt_url` or `twin.tts_url`.

    `url` is that of a container, as `SpeechConfig(host=…)` takes it.

    Args:
        voices: The voices that exist; empty: any.
    """

    key = KEY
    """The key that it accepts, also as a bearer token."""

    def __init__(self, *, voices: Collection[str] = (), pace: TwinPace | None = None) -> None:
        super().__init__()
        self.voices = voices
        self.pace = pace or TwinPace()
        self.tokens: set[str] = {KEY}
        """The bearer tokens that it accepts."""
        self.handshakes: list[dict[str, str]] = []
        """Path, query and headers (with names in lower case) of each try to connect, also of refused ones."""
        self.turns: list[SpeakTurn] = []
        """All turns of the voice, oldest first, also those that are over."""
        self.faults: list[TwinFault | None] = []
        """For the next turns of the voice, one each; None: no fault."""
        self._refusals: list[int] = []

    def _route(self, router: web.UrlDispatcher) -> None:
        router.add_get("/{path:.*}", self._serve)

    @property
    def stt_url(self) -> str:
        """The cloud's address of the recogniser."""
        return self.url + STT_PATH

    @property
    def tts_url(self) -> str:
        """The cloud's address of the voices that take text as it comes."""
        return self.url + TTS_PATH

    # --- the script

    def phrase(self, fields: Mapping[str, Any]) -> Told:
        """Return a `speech.phrase` with these fields, for `TwinConnection.send()`."""
        return answer("speech.phrase", "", dict(fields))

    def turn_end(self) -> Told:
        """Return the end of a turn, for `TwinConnection.send()`: the service ends one by itself."""
        return answer("turn.end", "", None)

    def refuse(self, *statuses: int) -> None:
        """Refuse the next handshakes with these HTTP statuses, one each."""
        self._refusals.extend(statuses)

    # --- for tests

    @property
    def live(self) -> list[SpeakTurn]:
        """The turns of the voice that are not over."""
        return [turn for turn in self.turns if not turn.is_over]

    # --- the server

    def new_turn(self, request: str, context: dict[str, object], send: Callable[..., object]) -> SpeakTurn:
        """Return a new turn of the voice, with the next fault."""
        fault = self.faults.pop(0) if self.faults else None
        self.turns.append(SpeakTurn(len(self.turns), request, context, send, self.pace, fault))  # type: ignore[arg-type]
        return self.turns[-1]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        heads = {name.lower(): value for name, value in request.headers.items()}
        self.handshakes.append({**heads, **request.query, "path": request.path})
        status = self._refusals.pop(0) if self._refusals else self._refusal(request, heads)
        if status:
            text = REFUSALS.get(status, "Something went wrong.")
            return web.json_response({"error": {"code": str(status), "message": text}}, status=status)
        if request.path in VOICES_PATHS:
            return web.json_response([{"ShortName": name} for name in self.voices])
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, timeout=0.5, protocols=("USP",))
        await socket.prepare(request)
        listening = None if request.path in TTS_PATHS else ListenTurns(dict(request.query), self._lexicon)
        connection = TwinConnection(self, socket, request.transport, request.path, listening)
        self.connections.append(connection)
        self.changed()
        await connection.run()
        return socket

    def _refusal(self, request: web.Request, heads: dict[str, str]) -> int:
        """Return the status of a handshake that is refused, else 0."""
        key, token = heads.get("ocp-apim-subscription-key", ""), heads.get("authorization", "").removeprefix("Bearer ")
        if key != self.key and token not in self.tokens:
            return 401
        if request.path not in (STT_PATH, STT_CONTAINER_PATH, *TTS_PATHS, *VOICES_PATHS):
            return 404
        return 400 if request.path == STT_CONTAINER_PATH and not request.query.get("language") else 0
