"""TwilioEnd: the simulated caller's end of a media stream: it asks the webhook and speaks as Twilio does."""

from __future__ import annotations

import base64
import binascii
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import anyio

from vivavoce.agents.caller.connection import Connection
from vivavoce.agents.caller.line import FRAME_SAMPLES, SAMPLE_RATE
from vivavoce.agents.caller.process import report
from vivavoce.agents.transports.media_stream.doubler import Doubler
from vivavoce.agents.transports.media_stream.twilio.webhook import signature
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.media import g711
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.media.resample import Resampler

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse
    from anyio.abc import TaskStatus

    from vivavoce.agents.caller.ears import Ears

CALLER, CALLED = "+15550100", "+15550199"
"""Numbers that are nobody's."""
HUNG_UP = "the agent hung up"
BROKEN = "the connection to the server was lost"
ABNORMAL = 1006
"""Close code of a WebSocket that was not closed by its other end (RFC 6455, section 7.1.5)."""
_SIZE = FRAME_SAMPLES * BYTES_PER_SAMPLE


class TwilioEnd:
    """Both directions of one stream: Twilio's queue with its marks, and the caller's frames.

    Args:
        websocket: The stream, open.
        stream_id: The stream's id.
    """

    def __init__(self, websocket: ClientWebSocketResponse, stream_id: str) -> None:
        self.failure = ""
        self.ended = ""
        self._websocket = websocket
        self._stream_id = stream_id
        self._queue: deque[bytes | str] = deque()
        self._playing = bytearray()
        self._up, self._down = Doubler(), Resampler(SAMPLE_RATE, g711.SAMPLE_RATE)
        self._out = bytearray()
        self._sequence = self._chunk = 0
        self._due: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether the agent is on the line."""
        return not self.ended

    @property
    def is_lost(self) -> bool:
        """Whether the stream ended by no act of the agent's."""
        return self.ended == BROKEN

    @property
    def waiting(self) -> float:
        """Seconds of the caller's audio that wait to be sent: none, each frame is sent when it is due."""
        return 0.0

    async def begin(self, parameters: dict[str, str]) -> None:
        """Say what call the stream carries."""
        await self._websocket.send_json({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        form = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        ids = {"accountSid": "AC0", "streamSid": self._stream_id, "callSid": new_id("CA")}
        await self._give("start", ids | {"tracks": ["inbound"], "mediaFormat": form, "customParameters": parameters})

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take what the agent sends, until the stream ends."""
        task_status.started()
        while not self.ended:
            await self._read()

    async def next_frame(self) -> AudioFrame:
        """Return the next 20 ms of the agent, when they are due."""
        now = anyio.current_time()
        self._due = max(now - 1.0, now if self._due is None else self._due) + FRAME_SECONDS
        await anyio.sleep_until(self._due)
        while len(self._playing) < _SIZE and self._queue:
            piece = self._queue.popleft()
            if isinstance(piece, bytes):
                self._playing += self._up.push(piece)
            else:
                await self._give("mark", {"name": piece})
        data = bytes(self._playing[:_SIZE]).ljust(_SIZE, b"\0")
        del self._playing[:_SIZE]
        return AudioFrame(data, SAMPLE_RATE)

    async def send(self, frame: AudioFrame) -> None:
        """Send 20 ms of the caller."""
        self._out += g711.encode(self._down.push(frame).data, "mulaw")
        while len(self._out) >= 160:
            media = {"track": "inbound", "chunk": str(self._chunk + 1), "timestamp": str(20 * self._chunk)}
            self._chunk += 1
            await self._give("media", media | {"payload": base64.b64encode(self._out[:160]).decode("ascii")})
            del self._out[:160]

    async def press(self, key: str) -> None:
        """Press a key of the caller's telephone."""
        await self._give("dtmf", {"track": "inbound_track", "digit": key})

    async def hang_up(self) -> None:
        """End the stream, as Twilio does when the caller hangs up."""
        if not self.ended:
            await self._give("stop", {"accountSid": "AC0", "callSid": ""})
        await self._websocket.close()

    # --- inside

    async def _read(self) -> None:
        from aiohttp import WSMsgType

        message = await self._websocket.receive()
        if message.type is WSMsgType.TEXT:
            await self._take(json.loads(message.data))
        elif message.type is not WSMsgType.BINARY:
            is_broken = self._websocket.close_code in (None, ABNORMAL)
            self.ended = BROKEN if is_broken else HUNG_UP

    async def _take(self, message: dict[str, Any]) -> None:
        match message.get("event"):
            case "media":
                try:
                    codes = base64.b64decode(message["media"]["payload"], validate=True)
                except (binascii.Error, KeyError, TypeError, ValueError) as error:
                    raise RoomError("the agent's media message has no audio in base64") from error
                self._queue.append(g711.decode(codes, "mulaw"))
            case "mark":
                self._queue.append(message["mark"]["name"])
            case "clear":
                waiting = [piece for piece in self._queue if isinstance(piece, str)]
                self._queue.clear()
                self._playing.clear()
                for name in waiting:
                    await self._give("mark", {"name": name})

    async def _give(self, event: str, data: dict[str, Any]) -> None:
        self._sequence += 1
        numbered = {"event": event, "sequenceNumber": str(self._sequence), "streamSid": self._stream_id, event: data}
        with suppress(ConnectionError):  # the reader sees how it ended
            await self._websocket.send_json(numbered)


@asynccontextmanager
async def connected_to_webhook(
    url: str, auth_token: str, ears: Ears, *, answer_limit: float
) -> AsyncIterator[Connection]:
    """Ask the webhook and open its stream.

    Args:
        url: The public address of the server, without the wire's name.
        auth_token: Signs the requests.
        answer_limit: Seconds for the server to open the stream.
    Raises:
        RoomError: The webhook or the stream refuses the call, or no server answers.
    """
    from aiohttp import ClientError, ClientSession

    async with ClientSession() as client:
        try:
            with anyio.fail_after(answer_limit):
                stream_url, parameters = await _ask(client, f"{url.rstrip('/')}/twilio", auth_token)
                signed = {"X-Twilio-Signature": signature(auth_token, stream_url, [])}
                websocket = await client.ws_connect(stream_url, headers=signed)
        except (ClientError, OSError, TimeoutError) as error:
            raise RoomError(f"no server answers the call at {url}: {error}; start vivavoce serve there") from error
        end = TwilioEnd(websocket, new_id("MZ"))
        try:
            await end.begin(parameters)
            report("joined", room=url)
            report("answered")
            yield Connection(ears, end, end)
        finally:
            with anyio.move_on_after(1.0, shield=True):
                await end.hang_up()


async def _ask(client: ClientSession, url: str, auth_token: str) -> tuple[str, dict[str, str]]:
    """Return the address of the stream and its parameters."""
    fields = {"CallSid": new_id("CA"), "AccountSid": "AC0", "From": CALLER, "To": CALLED, "CallStatus": "ringing"}
    signed = {"X-Twilio-Signature": signature(auth_token, url, fields.items())}
    async with client.post(url, data=fields, headers=signed) as answer:
        text = await answer.text()
        if answer.status != 200:
            raise RoomError(f"the webhook {url} refused the call: HTTP {answer.status}, {' '.join(text.split())[:200]}")
    try:
        stream = ElementTree.fromstring(text).find("Connect/Stream")
    except ElementTree.ParseError as error:
        raise RoomError(f"the webhook {url} had to answer with TwiML, got another text") from error
    if stream is None or not stream.get("url"):
        raise RoomError(f"the webhook {url} had to answer with <Connect><Stream url=…>, got another answer")
    found = {each.get("name", ""): each.get("value", "") for each in stream.iter("Parameter")}
    return str(stream.get("url")), found
