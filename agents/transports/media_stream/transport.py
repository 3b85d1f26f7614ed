"""MediaStreamTransport: one telephone call on a vendor's WebSocket; and the port `MediaSocket`."""

from __future__ import annotations

import logging
from collections import deque
from typing import Protocol

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.transports.frame_watch import FrameWatch
from vivavoce.agents.transports.media_stream.inbound import Inbound
from vivavoce.agents.transports.media_stream.sink import LATE, MarkedSink
from vivavoce.agents.transports.media_stream.wire import (
    Failed,
    Heard,
    KeyPressed,
    MarkPlayed,
    MediaWire,
    Message,
    Started,
    Stopped,
    WireError,
    WireEvent,
)
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.io import AudioSink, CallerInfo, Transport, TransportEvents
from vivavoce.pipelines.media.frame import AudioFrame

logger = logging.getLogger(__name__)

START_LIMIT = 10.0
"""Seconds for a stream to say what call it carries."""
SEND_LIMIT = 5.0
"""Seconds for a socket to take a message."""
CLOSE_LIMIT = 2.0
"""Seconds for the last messages and the close of the socket."""
MOST_MALFORMED = 100
"""Malformed messages of one call after which it ends."""
MOST_EARLY = 200
"""Messages before the start of a stream; vendors send one."""
CALLER = "caller"
"""Identity of a caller whose number is unknown."""


class MediaSocket(Protocol):
    """A WebSocket that is open."""

    async def receive(self) -> Message | None:
        """Return the next message; None once the socket is closed."""

    async def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            OSError: The socket is closed.
        """

    async def close(self) -> None:
        """Close it; a second call has no effect."""


async def wait_for_start(socket: MediaSocket, wire: MediaWire, *, limit: float = START_LIMIT) -> Started:
    """Return the facts of the call, the first event of a stream.

    Raises:
        RoomError: The stream has ended, sends something else, or says nothing within the limit.
    """
    with anyio.move_on_after(limit):
        for _ in range(MOST_EARLY):
            message = await socket.receive()
            if message is None:
                raise RoomError(f"the {wire.name} stream ended before its call had begun")
            for event in wire.receive(message):
                if isinstance(event, Started):
                    return event
                if isinstance(event, Failed):
                    raise RoomError(event.text)
        raise RoomError(f"needed the start of the {wire.name} stream, got {MOST_EARLY} other messages")
    raise RoomError(f"the {wire.name} stream had to begin within {limit:g} s and did not")


class MediaStreamTransport(Transport):
    """One call: the caller is there from the start, and its end is the end of the call.

    Args:
        wire: Its stream has started.
        call: The facts of the call, as `wait_for_start()` returned them.
    """

    def __init__(self, socket: MediaSocket, wire: MediaWire, call: Started, clock: Clock) -> None:
        self._socket = socket
        self._wire = wire
        self.call = call
        """The facts of the call: the caller's number, the called number, the parameters, the line."""
        self._clock = clock
        self._outbox: deque[Message] = deque()
        self._has_messages = anyio.Event()
        self._is_over = False
        self._end_reason = "the caller has hung up"
        self._sink = MarkedSink(wire, self._post, clock)
        self._inbound = Inbound(wire.input_rate, self._on_frame, reorders=wire.reorders)
        self.input_rate = self._inbound.output_rate
        self._events: TransportEvents | None = None
        self._watch: FrameWatch | None = None
        self._malformed = 0

    @property
    def sink(self) -> AudioSink:
        return self._sink

    @property
    def tail(self) -> float:
        return self._sink.delay + LATE

    @property
    def caller(self) -> CallerInfo:
        call = self.call
        return CallerInfo(
            number=call.number,
            called_number=call.called_number,
            parameters=call.parameters,
            line=call.line,
            identity=call.number or CALLER,
        )

    async def send_keys(self, keys: str) -> bool:
        if (message := self._wire.keys(keys)) is None:
            return False
        if self._is_over:
            raise RoomError("the call is over, and takes no keys")
        self._post(message)
        return True

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self._events = events
        self._watch = FrameWatch(self._clock, events.audio, events.audio_stopped)
        task_status.started()
        events.participant_linked(self.caller.identity)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send)
                await self._read(events)
                tasks.cancel_scope.cancel()
            await anyio.Event().wait()  # the session closes it; no timer, as in LocalTransport
        finally:
            self._watch.close()
            self._events = self._watch = None

    async def hangup(self) -> None:
        if not self._is_over:
            self._end_reason = "the agent has hung up"
        await self._close()
        if self._events is not None:
            self._end(self._events)

    async def leave(self) -> None:
        await self._close()

    async def aclose(self) -> None:
        await self._close()

    # --- inside

    async def _read(self, events: TransportEvents) -> None:
        while (message := await self._socket.receive()) is not None:
            try:
                found = self._wire.receive(message)
            except WireError as error:
                self._malformed += 1
                if self._malformed == 1:
                    events.failed(error, is_fatal=False)
                logger.debug("a message of the %s stream: %s", self._wire.name, error)
                if self._malformed < MOST_MALFORMED:
                    continue
                events.failed(
                    RoomError(f"{MOST_MALFORMED} malformed messages of the {self._wire.name} stream"), is_fatal=True
                )
                return
            for event in found:
                self._take(event, events)
            if any(isinstance(event, Stopped) for event in found):
                break
        self._inbound.flush()
        self._end(events)

    def _take(self, event: WireEvent, events: TransportEvents) -> None:
        match event:
            case Heard():
                self._inbound.push(event)
            case MarkPlayed(name):
                self._sink.played(name)
            case KeyPressed(key):
                events.key(key)
            case Failed(text):
                events.failed(RoomError(text), is_fatal=False)

    def _end(self, events: TransportEvents) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._watch is not None:
            self._watch.stop()
        events.participant_left(self.caller.identity, comes_back=False)
        events.closed(self._end_reason)

    def _on_frame(self, frame: AudioFrame) -> None:
        if self._watch is not None:
            self._watch.frame(frame)

    def _post(self, message: Message) -> None:
        if self._is_over:
            return
        self._outbox.append(message)
        self._has_messages.set()

    async def _send(self) -> None:
        while True:
            await self._has_messages.wait()
            self._has_messages = anyio.Event()
            try:
                with anyio.fail_after(SEND_LIMIT):
                    await self._empty_outbox()
            except (OSError, TimeoutError) as error:
                logger.debug("the %s stream takes no more audio: %s", self._wire.name, error)
                await self._socket.close()  # the reader sees its end
                return

    async def _empty_outbox(self) -> None:
        while self._outbox:
            await self._socket.send(self._outbox.popleft())

    async def _close(self) -> None:
        """Send the last messages and close the socket."""
        if not self._is_over and (last := self._wire.stop()) is not None:
            self._post(last)
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            try:
                await self._empty_outbox()
            except OSError as error:
                logger.debug("the %s stream was closed by its vendor: %s", self._wire.name, error)
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            await self._socket.close()
