"""LiveTwin: Gemini Live on loopback, played from a script, over TLS since the SDK speaks nothing else.

    async with LiveTwin() as twin:
        twin.answers("It is sunny.")
        options = google.RealtimeOptions(ssl_context=twin.trust)
        model = google.RealtimeModel(api_key="any", base_url=twin.url, options=options)

`google.RealtimeModel` speaks to it by Google's own SDK, which so proves its messages.

Sources: https://ai.google.dev/api/live (`setup`, `clientContent`, `realtimeInput`, `toolResponse`; `setupComplete`,
`serverContent`, `toolCall`, `toolCallCancellation`, `usageMetadata`); `live.py` of google-genai 3.6.1, which writes
some fields in snake case; https://ai.google.dev/gemini-api/docs/live-api/tools (calls). It was not compared with the
live server.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import anyio
from aiohttp import WSMsgType, web

from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.net.websocket import cut
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.plugins.google.twin.certificate import make_certificate

LIMIT = 60.0
"""Seconds that a test waits for a message of the client."""

CLOSE_LIMIT = 1.0

USAGE = {
    "promptTokenCount": 20,
    "responseTokenCount": 7,
    "cachedContentTokenCount": 5,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}, {"modality": "AUDIO", "tokenCount": 12}],
    "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}],
    "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 6}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The model's answer to a request: words with their sound, calls, and words in one burst behind the calls.

    Args:
        delay: Seconds before each word.
        ends: Whether `turnComplete` follows; behind calls, only from a server that completes their turn.
    """

    text: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    behind: str = ""
    delay: float = 0.0
    ends: bool = True


OpenCall = Literal["goes_on", "waits", "cancels"]
"""What a model does while a call has no output: it answers new input, leaves it unanswered until the output is there,
or cancels the call for it. By the documentation, in this order: `gemini-3.8-live`, whose functions are NON_BLOCKING;
`gemini-3.1-flash-live-preview` and the models of 2.5, which call synchronously; `gemini-3.8-live` with functions that
are declared BLOCKING. The first completes the turn of its calls before the outputs; the others do it before or after.
"""


def tone_of(_: str) -> bytes:
    """Return the sound of any word."""
    return tone(0.2)


class LiveTwin:
    """Google's server of Gemini Live on a free port of 127.0.0.1, open inside of an `async with` block.

    It answers each request with the next turn, else with the result of `mind` for the client's messages.
    """

    def __init__(self, mind: Callable[[list[dict[str, Any]]], Turn | str] | None = None) -> None:
        self.url = ""
        self.trust: ssl.SSLContext | None = None
        """Trusts its certificate."""
        self.received: list[dict[str, Any]] = []
        """Client messages, oldest first; of audio only how many bytes."""
        self.setups: list[dict[str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.refusals: list[int] = []
        self.first: dict[str, Any] = {"setupComplete": {}}
        """The answer to the setup."""
        self.open_call: OpenCall = "goes_on"
        self.completes_calls = True
        """Whether it ends the turn of its calls before it has their outputs."""
        self.voice: Callable[[str], bytes] = tone_of
        """Returns a word's sound."""
        self._open: set[str] = set()
        """The ids of the calls without an output."""
        self._turns: list[Turn] = []
        self._words: list[str] = []
        self._mind = mind
        self.sockets: list[web.WebSocketResponse] = []
        """Of all connections, oldest first."""
        self._socket: web.WebSocketResponse | None = None
        self._transport: asyncio.Transport | None = None
        self._playing: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._awaits_past = False
        """Whether the next content of the newest connection is its history."""
        self._tasks = OwnedTasks("gemini live twin")
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="gemini-live-") as folder:
            certificate = make_certificate(Path(folder))
            own.load_cert_chain(certificate)
            self.trust = ssl.create_default_context(cafile=str(certificate))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=own).start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        self._tasks.cancel()
        await self._tasks.finish(CLOSE_LIMIT)

    def answers(self, *turns: Turn | str) -> None:
        """Play these next, one a request."""
        self._turns += [Turn(text=one) if isinstance(one, str) else one for one in turns]

    def hears(self, *words: str) -> None:
        """Transcribe the user's next turns so, one each, before they are answered."""
        self._words += words

    async def send(self, message: dict[str, Any] | str, over: web.WebSocketResponse | None = None) -> None:
        """Send a server message, or a raw frame, over the newest connection unless another one is given."""
        socket = over or self._socket
        assert socket is not None
        if isinstance(message, dict):
            self._open.update(call["id"] for call in message.get("toolCall", {}).get("functionCalls", []))
            self._open.difference_update(message.get("toolCallCancellation", {}).get("ids", []))
        if not socket.closed:
            await socket.send_str(message if isinstance(message, str) else json.dumps(message))

    async def close(self, code: int, reason: str) -> None:
        """Close the connection as the service does."""
        assert self._socket is not None
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """Cut the connection."""
        assert self._transport is not None
        cut(self._transport)

    async def got(self, holds: Callable[[dict[str, Any]], Any], count: int = 1) -> None:
        """Wait for client messages."""
        async with asyncio.timeout(LIMIT), self._changed:
            await self._changed.wait_for(lambda: sum(bool(holds(one)) for one in self.received) >= count)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one client."""
        self.queries.append(dict(request.query) | {"key": request.headers.get("x-goog-api-key", "")})
        if self.refusals:
            return web.Response(status=self.refusals.pop(0))
        socket = self._socket = web.WebSocketResponse(max_msg_size=0)
        self._transport = request.transport
        self.sockets.append(socket)
        await socket.prepare(request)
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    await self._take(json.loads(frame.data))
        finally:
            await self._stop()
        return socket

    async def _take(self, message: dict[str, Any]) -> None:
        if "setup" in message:
            self.setups.append(message["setup"])
            self._awaits_past = bool(message["setup"].get("historyConfig"))
            await self.send(self.first)
            return
        realtime = message.get("realtime_input", {})
        if "audio" in realtime:
            realtime["audio"] = len(base64.urlsafe_b64decode(realtime["audio"]["data"]))
        async with self._changed:
            self.received.append(message)
            self._changed.notify_all()
        content = message.get("client_content")
        if content is not None and self._playing is not None and not self._playing.done():
            await self._stop()
            await self.send({"serverContent": {"interrupted": True}})
            await self.send({"serverContent": {"turnComplete": True}})
        if "tool_response" in message:
            await self._take_outputs(message["tool_response"])
            return
        is_past = self._awaits_past and content is not None
        self._awaits_past = self._awaits_past and not is_past
        asks = (content or {}).get("turn_complete") or (content or {}).get("turnComplete")
        asks = asks and not is_past
        if "activity_end" in realtime or "activityEnd" in realtime:
            asks = True
            if self._words:
                await self.send({"serverContent": {"inputTranscription": {"text": self._words.pop(0)}}})
        if self._open and self.open_call == "cancels" and (asks or content is not None):
            await self.send({"toolCallCancellation": {"ids": sorted(self._open)}})
        if asks and not (self._open and self.open_call == "waits"):
            await self._stop()
            self._begin(self.play())

    async def _take_outputs(self, response: dict[str, Any]) -> None:
        """Answer the outputs once no call is open; an output of a cancelled call gets no answer."""
        outputs = response.get("functionResponses") or response.get("function_responses") or []
        known = self._open.intersection(one["id"] for one in outputs)
        self._open -= known
        if known and not self._open:
            self._begin(self._play_behind(self._playing))

    def _begin(self, playing: Coroutine[Any, Any, None]) -> None:
        self._playing = self._tasks.task(playing, "a turn of the model")

    async def _play_behind(self, before: asyncio.Task[None] | None) -> None:
        """Play the next turn when the present one is over: outputs do not interrupt the model."""
        if before is not None:
            await asyncio.wait([before])
        await self.play()

    async def play(self) -> None:
        """Play the next turn, also unasked."""
        if self._turns:
            turn = self._turns.pop(0)
        else:
            assert self._mind is not None, "the script is over; add a turn"
            made = self._mind(self.received)
            turn = Turn(text=made) if isinstance(made, str) else made
        await self._speak(turn.text, turn.delay)
        if turn.calls:
            await self.send({"toolCall": {"functionCalls": list(turn.calls)}})
            await self._speak(turn.behind, turn.delay, is_first=not turn.text)
        if turn.ends and (self.completes_calls or not turn.calls):
            await self.send({"serverContent": {"generationComplete": True}})
            await self.send({"serverContent": {"turnComplete": True}, "usageMetadata": USAGE})

    async def _speak(self, text: str, delay: float, *, is_first: bool = True) -> None:
        for number, word in enumerate(text.split()):
            await anyio.sleep(delay)
            piece = word if is_first and number == 0 else f" {word}"
            blob = {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(self.voice(word)).decode()}
            parts: list[dict[str, Any]] = [{"inlineData": blob}]
            if self.setups[-1]["generationConfig"]["responseModalities"] == ["TEXT"]:
                parts = [{"text": piece}]
            else:
                await self.send({"serverContent": {"outputTranscription": {"text": piece}}})
            await self.send({"serverContent": {"modelTurn": {"role": "model", "parts": parts}}})

    async def _stop(self) -> None:
        if self._playing is not None and not self._playing.done():
            self._playing.cancel()
            await asyncio.wait([self._playing])
