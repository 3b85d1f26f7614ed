"""A telephone's vendor on its side of a media stream, in the loop's time: a queue that plays, marks, clear."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.agents.transports.media_stream.wire import Message
from vivavoce.pipelines.media import g711

FRAME = 160
"""Samples of 20 ms."""
LOUD = g711.encode(b"\x00\x10" * FRAME, "mulaw")
SILENT = g711.SILENCE["mulaw"] * FRAME


class Wire:
    """A WebSocket in the process, with a delay in each direction.

    Args:
        delay: Seconds that a message takes.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay
        self._to_us: asyncio.Queue[Message | None] = asyncio.Queue()
        self.from_us: asyncio.Queue[Message | None] = asyncio.Queue()
        self._on_way: dict[int, deque[Message | None]] = {}
        self.is_closed = False
        self.is_stuck = False
        """Whether the socket takes no bytes."""

    # --- our side: the port MediaSocket

    async def receive(self) -> Message | None:
        return None if self.is_closed and self._to_us.empty() else await self._to_us.get()

    async def send(self, message: Message) -> None:
        if self.is_stuck:
            await anyio.sleep_forever()
        if self.is_closed:
            raise ConnectionResetError("closed")
        self._later(self.from_us, message)

    async def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._to_us.put_nowait(None)
            self._later(self.from_us, None)
            await checkpoint()  # a socket's close waits for the other side, and its reader sees the end before

    # --- the vendor's side

    def give(self, message: Message | dict[str, Any]) -> None:
        """Send a message to us."""
        self._later(self._to_us, json.dumps(message) if isinstance(message, dict) else message)

    def hang_up(self) -> None:
        self.is_closed = True
        self._later(self._to_us, None)

    def _later(self, queue: asyncio.Queue[Message | None], message: Message | None) -> None:
        loop, on_way = asyncio.get_running_loop(), self._on_way.setdefault(id(queue), deque())
        on_way.append(message)  # timers of one moment have no order
        loop.call_at(loop.time() + self._delay, lambda: queue.put_nowait(on_way.popleft()))


class Twilio:
    """Twilio's side of one call.

    Args:
        wire: Carries it.
        parameters: The stream's parameters.
        returns_cleared: Whether a clear returns the waiting marks; Plivo's does not.
        marks: Whether marks come back at all.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        parameters: dict[str, str] | None = None,
        returns_cleared: bool = True,
        marks: bool = True,
    ) -> None:
        self.wire = wire
        self._parameters = parameters or {}
        self._returns_cleared = returns_cleared
        self.returns_marks = marks
        self._queue: deque[bytes | str] = deque()
        self._sequence = 0
        self._chunk = 0
        self.played = bytearray()
        """PCM of all audio that the phone has played, without the silence between."""
        self.clears = 0
        self._is_playing = False
        self.is_stalled = False
        """Whether nothing is played."""
        self.on_play: Callable[[bytes], None] = lambda _: None
        """Called with each piece of audio when the phone begins to play it, 16-bit PCM of 8 kHz."""
        self.is_over = False
        self.over = anyio.Event()
        self.close_code: int | None = None
        self.lost: list[tuple[float, float]] = []
        """Times in `talk()` whose frames never come."""
        self.held: list[tuple[float, float]] = []
        """Times in `talk()` whose frames come at once, at the end."""
        self.sounds: dict[int, bytes] = {}
        """Codes of other sounds in `talk()`, by the number of their frame of 20 ms."""

    def begin(self) -> None:
        self.wire.give({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        start = {
            "accountSid": "AC1",
            "streamSid": "MZ1",
            "callSid": "CA1",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
            "customParameters": self._parameters,
        }
        self._give("start", start)

    async def run(self) -> None:
        """Play what comes, until the socket is closed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._play)
            while (message := await self.wire.from_us.get()) is not None:
                self._take(message)
            self.is_over = True
            self.over.set()
            tasks.cancel_scope.cancel()

    async def until_played(self, seconds: float) -> None:
        """Wait until the phone has played so much audio."""
        while len(self.played) < seconds * 16000:  # noqa: ASYNC110 - in any loop's time
            await anyio.sleep(0.01)

    async def talk(self, speech: list[tuple[float, float]], *, until: float = 60.0) -> None:
        """Send a frame each 20 ms, as a vendor does: loud at the times of the script, in seconds from now."""
        loop = asyncio.get_running_loop()
        began_at, held = loop.time(), list[bytes]()
        for number in range(round(until * 50)):
            await anyio.sleep_until(began_at + (number + 1) / 50)
            if self.is_over:
                return
            at = number / 50
            frame = LOUD if any(start <= at < end for start, end in speech) else SILENT
            frame = self.sounds.get(number, frame)
            if any(start <= at < end for start, end in self.lost):
                self._chunk += 1
                continue
            held.append(frame)
            if not any(start <= at < end for start, end in self.held):
                for each in held:
                    self.send(each)
                held.clear()

    @property
    def sent(self) -> int:
        """Messages of the caller's audio so far."""
        return self._chunk

    def send(self, codes: bytes) -> None:
        self._chunk += 1
        media = {"track": "inbound", "chunk": str(self._chunk), "timestamp": str((self._chunk - 1) * 20 + 5)}
        self._give("media", media | {"payload": base64.b64encode(codes).decode()})

    def press(self, key: str) -> None:
        self._give("dtmf", {"track": "inbound_track", "digit": key})

    def hang_up(self) -> None:
        self._give("stop", {"accountSid": "AC1", "callSid": "CA1"})
        self.wire.hang_up()

    def _give(self, event: str, data: dict[str, Any]) -> None:
        self._sequence += 1
        message = {"event": event, "sequenceNumber": str(self._sequence), "streamSid": "MZ1", event: data}
        self.wire.give(message)

    def _take(self, message: Message) -> None:
        data = json.loads(message)
        assert data["streamSid"] == "MZ1"
        match data["event"]:
            case "media":
                pcm = g711.decode(base64.b64decode(data["media"]["payload"]), "mulaw")
                self._queue.append(pcm)
            case "mark":
                self._queue.append(data["mark"]["name"])
                if not self._is_playing:
                    self._return_marks()
            case "clear":
                self.clears += 1
                waiting = [each for each in self._queue if isinstance(each, str)]
                self._queue.clear()
                for name in waiting if self._returns_cleared else ():
                    self._mark(name)
            case other:
                raise AssertionError(f"Twilio takes no {other!r}")

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await anyio.sleep(0.005)
            began_at, frames = loop.time(), 0
            while self._queue and not self.is_stalled:
                pcm = self._queue.popleft()
                if isinstance(pcm, str):
                    self._mark(pcm)
                    continue
                self.played += pcm
                self.on_play(pcm)
                frames += len(pcm)
                self._is_playing = True
                await anyio.sleep_until(began_at + frames / 2 / 8000)
                self._is_playing = False
                self._return_marks()

    def _return_marks(self) -> None:
        while self._queue and isinstance(self._queue[0], str):
            self._mark(self._queue.popleft())

    def _mark(self, name: bytes | str) -> None:
        if self.returns_marks:
            self._give("mark", {"name": name})
