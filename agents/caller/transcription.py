"""Hears the agent by its own transcription stream (`lk.transcription`), for agents that send one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.caller.script_mind import ScriptMind

if TYPE_CHECKING:
    from livekit import rtc

TOPIC = "lk.transcription"
SEGMENT_ID = "lk.segment_id"


class Transcription:
    """Collects transcriptions: call `listen_to(room)` before the room connects, and `run()` beside the call."""

    def __init__(self, mind: ScriptMind) -> None:
        self._mind = mind
        self._places: dict[str, dict[str, str]] = {}
        """The dict of each segment: a second stream of it, which corrects the first, may come a line later."""
        # Unbounded: the SDK's callback cannot wait, and a stream is opened once a segment.
        self._opened, self._to_read = anyio.create_memory_object_stream["rtc.TextStreamReader"](math.inf)

    def listen_to(self, room: rtc.Room) -> None:
        """Register for the streams; streams in the caller's own name are skipped: they hold the caller's words."""

        def on_stream(reader: rtc.TextStreamReader, identity: str) -> None:
            if identity != room.local_participant.identity:
                self._opened.send_nowait(reader)

        room.register_text_stream_handler(TOPIC, on_stream)

    async def run(self) -> None:
        """Read opened streams until cancelled."""
        async with self._opened, self._to_read, anyio.create_task_group() as tasks:
            async for reader in self._to_read:
                tasks.start_soon(self._read, reader)

    async def _read(self, reader: rtc.TextStreamReader) -> None:
        segment = (reader.info.attributes or {}).get(SEGMENT_ID) or reader.info.stream_id
        captions = self._places.setdefault(segment, self._mind.captions())
        captions[segment] = ""
        async for chunk in reader:
            captions[segment] += chunk
