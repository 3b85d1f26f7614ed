"""AgentRoom: a LiveKit room that keeps the audio which clients send before a session listens.

A client that records before it is connected (LiveKit calls it the pre-connect buffer) sends the recording as soon as
the agent is in the room, as a byte stream on topic `lk.agent.pre-connect-audio-buffer`. The code of a job may start its
session later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from livekit import rtc
from livekit.rtc.data_stream import ByteStreamHandler

from vivavoce.pipelines.core.clock import Clock, LoopClock

PRE_CONNECT_TOPIC = "lk.agent.pre-connect-audio-buffer"
MAX_STREAMS = 4
"""Streams that may wait for a session, or be read by it."""


@dataclass(frozen=True, slots=True)
class SentStream:
    """A byte stream that has begun to arrive."""

    reader: rtc.ByteStreamReader
    sender: str
    came_at: float
    """On the clock of the `SentStreams`."""


class SentStreams:
    """Takes the streams of a room on the topic of recordings, and keeps them until a session takes them."""

    def __init__(self, room: rtc.Room, clock: Clock) -> None:
        self._room = room
        self._clock = clock
        self._kept: list[SentStream] = []
        self._taker: Callable[[SentStream], None] | None = None
        self._is_open = False
        self.settled: set[str] = set()
        """Tracks whose recording a session of this room has heard, or has given up."""

    @property
    def is_taken(self) -> bool:
        """Whether a session takes the streams."""
        return self._taker is not None

    def open(self) -> bool:
        """Take streams from now on; False if the application has a handler of its own for them."""
        if not self._is_open:
            try:
                self._room.register_byte_stream_handler(PRE_CONNECT_TOPIC, self.add)
            except ValueError:
                return False
            self._is_open = True
        return True

    def close(self) -> None:
        """Take no more streams, and drop those that are kept."""
        if self._is_open:
            self._room.unregister_byte_stream_handler(PRE_CONNECT_TOPIC)
            self._is_open = False
        for stream in self._kept:
            stream.reader.close()
        self._kept.clear()

    def age(self, stream: SentStream) -> float:
        """Return the seconds since the stream has begun to arrive."""
        return self._clock.now() - stream.came_at

    def take(self, taker: Callable[[SentStream], None]) -> None:
        """Give `taker` the kept streams and those to come, until `release()`."""
        self._taker = taker
        kept, self._kept = self._kept, []
        for stream in kept:
            taker(stream)

    def release(self) -> None:
        """Keep the streams from now on for the next session."""
        self._taker = None

    def add(self, reader: rtc.ByteStreamReader, sender: str) -> None:
        """Take a stream that begins to arrive; called by the SDK."""
        stream = SentStream(reader, sender, self._clock.now())
        if self._taker is not None:
            self._taker(stream)
        elif len(self._kept) < MAX_STREAMS:
            self._kept.append(stream)
        else:
            reader.close()


class AgentRoom(rtc.Room):
    """A room whose streams of recordings are kept from the connecting on, for the session that starts in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(loop)
        self.recordings = SentStreams(self, LoopClock())
        self.recordings.open()

    def register_byte_stream_handler(self, topic: str, handler: ByteStreamHandler) -> None:
        """Register a handler; one of the application takes the recordings in place of the session."""
        if topic == PRE_CONNECT_TOPIC and handler != self.recordings.add:
            self.recordings.close()
        super().register_byte_stream_handler(topic, handler)
