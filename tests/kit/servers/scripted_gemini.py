"""A server that speaks Gemini Live's protocol from a script, over TLS on loopback: the SDK speaks nothing else.

async with scripted_gemini() as server:
    server.answers("It is sunny.")
    model = google.RealtimeModel(api_key="k", base_url=server.url, options=server.options())
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vivavoce.pipelines.testing.realtime_server.script import tone

LIMIT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The model's answer to a request: words with their sound, or calls; `delay` seconds before each word."""

    text: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    delay: float = 0.0
    ends: bool = True


class ScriptedGemini:
    """Answers each request with the next turn, else with the result of `mind` for the client's messages."""

    def __init__(self, mind: Callable[[list[dict[str, Any]]], Turn | str] | None) -> None:
        self.url = ""
        self.trust: ssl.SSLContext | None = None
        self.received: list[dict[str, Any]] = []
        """Client messages, oldest first; of audio only how many bytes."""
        self.setups: list[dict[str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.refusals: list[int] = []
        self.first: dict[str, Any] = {"setupComplete": {}}
        """The answer to the setup."""
        self._turns: list[Turn] = []
        self._mind = mind
        self.sockets: list[web.WebSocketResponse] = []
        """Of all connections, oldest first."""
        self._socket: web.WebSocketResponse | None = None
        self._transport: asyncio.Transport | None = None
        self._playing: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._awaits_past = False
        """Whether the next content of the newest connection is its history."""

    def answers(self, *turns: Turn | str) -> None:
        """Play these next, one a request."""
        self._turns += [Turn(text=one) if isinstance(one, str) else one for one in turns]

    async def send(self, message: dict[str, Any] | str, over: web.WebSocketResponse | None = None) -> None:
        """Send a server message, or a raw frame, over the newest connection unless another one is given."""
        socket = over or self._socket
        assert socket is not None
        if not socket.closed:
            await socket.send_str(message if isinstance(message, str) else json.dumps(message))

    async def close(self, code: int, reason: str) -> None:
        """Close the connection as the service does."""
        assert self._socket is not None
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        """Cut the connection."""
        assert self._transport is not None
        self._transport.abort()

    async def got(self, holds: Callable[[dict[str, Any]], Any], count: int = 1) -> None:
        """Wait for client messages."""
        async with asyncio.timeout(LIMIT), self._changed:
            await self._changed.wait_for(lambda: sum(bool(holds(one)) for one in self.received) >= count)

    async def serve(self, request: web.Request) -> web.StreamResponse:
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
        is_past = self._awaits_past and content is not None
        self._awaits_past = self._awaits_past and not is_past
        asks = (content or {}).get("turn_complete") or (content or {}).get("turnComplete")
        if (
            (asks and not is_past)
            or "activity_end" in realtime
            or "activityEnd" in realtime
            or "tool_response" in message
        ):
            await self._stop()
            self._playing = asyncio.get_running_loop().create_task(self.play(), name="a turn of the model")

    async def play(self) -> None:
        """Play the next turn, also unasked."""
        if self._turns:
            turn = self._turns.pop(0)
        else:
            assert self._mind is not None, "the script is over; add a turn"
            made = self._mind(self.received)
            turn = Turn(text=made) if isinstance(made, str) else made
        for number, word in enumerate(turn.text.split()):
            await asyncio.sleep(turn.delay)  # noqa: TID251 - the server's own pace
            blob = {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(tone(0.2)).decode()}
            parts: list[dict[str, Any]] = [{"inlineData": blob}]
            if self.setups[-1]["generationConfig"]["responseModalities"] == ["TEXT"]:
                parts = [{"text": word if number == 0 else f" {word}"}]
            else:
                words = {"text": word if number == 0 else f" {word}"}
                await self.send({"serverContent": {"outputTranscription": words}})
            await self.send({"serverContent": {"modelTurn": {"role": "model", "parts": parts}}})
        if turn.calls:
            await self.send({"toolCall": {"functionCalls": list(turn.calls)}})
        elif turn.ends:
            await self.send({"serverContent": {"generationComplete": True}})
            usage = {
                "promptTokenCount": 20,
                "responseTokenCount": 7,
                "cachedContentTokenCount": 5,
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 8},
                    {"modality": "AUDIO", "tokenCount": 12},
                ],
                "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}],
                "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 6}],
            }
            await self.send({"serverContent": {"turnComplete": True}, "usageMetadata": usage})

    async def _stop(self) -> None:
        if self._playing is not None and not self._playing.done():
            self._playing.cancel()
            await asyncio.wait([self._playing])


@asynccontextmanager
async def scripted_gemini(
    folder: Path, mind: Callable[[list[dict[str, Any]]], Turn | str] | None = None
) -> AsyncIterator[ScriptedGemini]:
    """Serve on a free port of 127.0.0.1.

    Args:
        folder: For the certificate.
    """
    server = ScriptedGemini(mind)
    certificate = make_certificate(folder)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate)
    server.trust = ssl.create_default_context(cafile=str(certificate))
    app = web.Application()
    app.router.add_get("/{path:.*}", server.serve)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=own).start()
        server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def make_certificate(folder: Path) -> Path:
    """Write a key and a certificate for 127.0.0.1, signed by itself, into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "certificate.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
