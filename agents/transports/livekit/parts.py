"""RoomParts: the rich replies of a session in a room: messages and bytes to the linked participant, and its answers and
files.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.callbacks import callbacks
from vivavoce.agents.transports.livekit.inbound import TextReader
from vivavoce.agents.transports.livekit.outbound import SDK_ERRORS
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.io import FileOutcome, OfferedFile, PartMessage, TransportEvents

logger = logging.getLogger(__name__)

T = TypeVar("T")

PARTS_TOPIC = "vivavoce.parts"
PART = "part"
"""Attribute of a byte stream from the agent: the id of the part that the bytes belong to."""
JOINING = (rtc.ParticipantState.PARTICIPANT_STATE_JOINING, rtc.ParticipantState.PARTICIPANT_STATE_JOINED)
ACTIVE_LIMIT = 10.0
"""Seconds that a message waits for its receiver to become active; then it is sent all the same."""
SEND_LIMIT = 5.0
"""Seconds for one step of one message; then the message is given up."""
PIECE = 60_000
"""Bytes of an image or a file between which captions may pass; the SDK cuts them further."""
MAX_PENDING = 256
MAX_ANSWER = 200_000
"""Characters of an answer to a part."""
READ_LIMIT = 120.0
"""Seconds that a file of the participant may take."""
MAX_AT_ONCE = 3
"""Files that are read at a time; further ones are refused."""


class PartSender:
    """Sends messages one after another; those that wait are dropped when their receiver has left the room.

    A message waits until its receiver is active: a server drops data for a participant without a transport.
    """

    def __init__(self, room: rtc.Room) -> None:
        self._room = room
        self._participant = room.local_participant
        self._pending: deque[tuple[PartMessage, str]] = deque()
        self._added = anyio.Event()

    def add(self, message: PartMessage, *, receiver: str) -> None:
        """Queue a message for one participant."""
        self._pending.append((message, receiver))
        if len(self._pending) > MAX_PENDING:
            self._pending.popleft()
            logger.warning("more than %s parts wait for the room; the oldest is dropped", MAX_PENDING)
        self._added.set()

    def drop(self) -> None:
        """Drop the messages that wait: their receiver has left, or the room is gone."""
        self._pending.clear()
        self._added.set()

    async def run(self) -> None:
        """Send until cancelled."""
        with callbacks(self._room, {"participant_active": self._note_active}):
            while True:
                self._added = anyio.Event()
                while self._pending:
                    with anyio.move_on_after(ACTIVE_LIMIT):
                        await self._until_active()
                    if self._pending:
                        await self._send(*self._pending.popleft())
                await self._added.wait()

    async def _until_active(self) -> None:
        """Wait until the receiver of the next message can take data."""
        while self._pending:
            receiver = self._room.remote_participants.get(self._pending[0][1])
            if receiver is None or receiver.state not in JOINING:
                return
            self._added = anyio.Event()
            await self._added.wait()

    def _note_active(self, _: rtc.RemoteParticipant) -> None:
        self._added.set()

    async def finish(self) -> None:
        """Send the messages that wait; the caller sets a limit. `run` must have ended."""
        while self._pending:
            await self._send(*self._pending.popleft())

    async def _send(self, message: PartMessage, receiver: str) -> None:
        try:
            with anyio.CancelScope(shield=True):  # a text that has begun is sent to its end
                text = self._participant.send_text(
                    message.json_text, topic=PARTS_TOPIC, destination_identities=[receiver]
                )
                await _within(text)
            if message.data:
                await self._send_bytes(message, receiver)
        except SDK_ERRORS as error:
            logger.warning("the room did not take a part of a rich reply: %s", error or "no answer in time")

    async def _send_bytes(self, message: PartMessage, receiver: str) -> None:
        writer = await _within(
            self._participant.stream_bytes(
                message.name or message.part_id,
                total_size=len(message.data),
                mime_type=message.media_type,
                attributes={PART: message.part_id},
                destination_identities=[receiver],
                topic=PARTS_TOPIC,
            )
        )
        data = memoryview(message.data)
        try:
            for start in range(0, len(data), PIECE):
                await _within(writer.write(bytes(data[start : start + PIECE])))
        finally:
            with anyio.CancelScope(shield=True):
                await _within(writer.aclose())


class FileReader:
    """Reads the files of the linked participant; those of others are closed unread.

    Args:
        identity: Identity of the participant, if known before the link.
    """

    def __init__(self, identity: str | None, events: TransportEvents) -> None:
        self._identity = identity
        self._events = events
        self._waiting: deque[rtc.ByteStreamReader] = deque()
        self._reading = 0
        self._came = anyio.Event()

    def link(self, identity: str) -> None:
        """Read this participant's files from now on."""
        self._identity = identity

    def add(self, reader: rtc.ByteStreamReader, sender: str) -> None:
        """Take a file that begins to arrive; called by the SDK."""
        if sender != self._identity:
            reader.close()
        elif len(self._waiting) + self._reading >= MAX_AT_ONCE:
            reader.close()
            self._events.file_ended(_offered(reader.info), "too_many")
        else:
            self._waiting.append(reader)
            self._came.set()

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    self._came = anyio.Event()
                    while self._waiting:
                        reader = self._waiting.popleft()
                        self._reading += 1
                        tasks.start_soon(self._read, reader)
                    await self._came.wait()
        finally:
            for reader in self._waiting:
                reader.close()
            self._waiting.clear()

    async def _read(self, reader: rtc.ByteStreamReader) -> None:
        file = _offered(reader.info)
        try:
            limit = self._events.file_offered(file)
            if limit:
                outcome, data = await self._pieces(reader, limit, file.size)
                self._events.file_ended(file, outcome, data)
        finally:
            self._reading -= 1
            reader.close()

    async def _pieces(self, reader: rtc.ByteStreamReader, limit: int, size: int | None) -> tuple[FileOutcome, bytes]:
        pieces = bytearray()
        try:
            with anyio.fail_after(READ_LIMIT):
                async for piece in reader:
                    pieces += piece
                    if len(pieces) > limit:
                        return "too_large", b""
        except (ConnectionError, TimeoutError) as error:
            logger.warning("a file of the caller did not arrive whole: %s", error or "too slow")
            return "incomplete", b""
        if size is not None and size != len(pieces):
            return "incomplete", b""
        return "received", bytes(pieces)


class RoomParts:
    """Everything about rich replies in one room, for the transport of one session."""

    def __init__(self, room: rtc.Room, options: RoomOptions) -> None:
        self._room = room
        self._options = options
        self._sender: PartSender | None = None
        self._answers: TextReader | None = None
        self._files: FileReader | None = None

    @contextmanager
    def taking(self, identity: str | None, events: TransportEvents) -> Iterator[None]:
        """Take answers and files of the linked participant within the block.

        Raises:
            RoomError: Another session takes them.
        """
        self._sender = PartSender(self._room)
        if not self._options.text_input:
            yield
            return
        self._answers = answers = TextReader(identity, events.part_answered, max_characters=MAX_ANSWER)
        self._files = files = FileReader(identity, events)
        with ExitStack() as handlers:
            try:
                self._room.register_text_stream_handler(PARTS_TOPIC, answers.add)
                handlers.callback(self._room.unregister_text_stream_handler, PARTS_TOPIC)
                self._room.register_byte_stream_handler(PARTS_TOPIC, files.add)
                handlers.callback(self._room.unregister_byte_stream_handler, PARTS_TOPIC)
            except ValueError as error:
                raise RoomError(
                    f"streams on topic {PARTS_TOPIC!r} of this room are taken by somebody else already; remove that "
                    "handler first, or pass RoomOptions(text_input=False)"
                ) from error
            yield

    async def run(self) -> None:
        """Send and read until cancelled, within `taking()`."""
        assert self._sender is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sender.run)
            if self._answers is not None:
                tasks.start_soon(self._answers.run)
            if self._files is not None:
                tasks.start_soon(self._files.run)

    def link(self, identity: str) -> None:
        """Read the answers and files of this participant from now on."""
        if self._answers is not None:
            self._answers.link(identity)
        if self._files is not None:
            self._files.link(identity)

    def send(self, message: PartMessage, *, receiver: str) -> None:
        """Queue a message for one participant."""
        if self._sender is not None:
            self._sender.add(message, receiver=receiver)

    def drop(self) -> None:
        """Drop the messages that wait: their receiver has left, or the room is gone."""
        if self._sender is not None:
            self._sender.drop()

    async def finish(self) -> None:
        """Send the messages that wait; the caller sets a limit. `run` must have ended."""
        if self._sender is not None:
            await self._sender.finish()


def _offered(info: rtc.ByteStreamInfo) -> OfferedFile:
    return OfferedFile(id=info.stream_id, name=info.name, media_type=info.mime_type, size=info.size or None)


async def _within(waiting: Awaitable[T]) -> T:
    with anyio.fail_after(SEND_LIMIT):
        return await waiting
