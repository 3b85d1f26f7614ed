"""Input from the linked participant: its microphone, frame by frame, and its typed texts."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable

import anyio
from livekit import rtc

from vivavoce.agents.transports.frame_watch import FrameWatch
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

logger = logging.getLogger(__name__)

AUDIO_CAPACITY = 50
"""Frames (1 s) kept for a loop that is late; then the oldest are dropped."""
CLOSE_LIMIT = 2.0
MUTE_TAIL = 0.4
"""Seconds that a muted track is still read: the last audio before the muting arrives later than the notice of it."""
TEXT_LIMIT = 10.0
"""Seconds that one typed text may take to arrive."""
MAX_TEXT_CHARACTERS = 10_000
MAX_TEXTS = 32
"""Texts that may wait to be read."""


class MicrophoneReader:
    """Reads one track at a time and hands its frames on, synchronously.

    For a muted track the SDK delivers silence; that is not handed on.

    Args:
        sample_rate: Hz of the frames handed on.
        on_frame: Called with each 20 ms frame.
        on_stopped: Called when the frames stop for now, after some have come.
        clock: Shows that they stop, where the room does not say so.
    """

    def __init__(
        self,
        sample_rate: int,
        on_frame: Callable[[AudioFrame], None],
        on_stopped: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._rate = sample_rate
        self._watch = FrameWatch(clock, on_frame, on_stopped)
        self._track: rtc.RemoteAudioTrack | None = None
        self._is_muted = False
        self._reading: anyio.CancelScope | None = None
        self._changed = anyio.Event()

    def follow(self, track: rtc.RemoteAudioTrack | None, *, is_muted: bool = False) -> None:
        """Read `track` from now on, or nothing; a repeated call with the same track has no effect."""
        is_same = track is self._track
        if is_same and is_muted == self._is_muted:
            return
        self._track, self._is_muted = track, is_muted
        if self._reading is not None:
            if not is_same:
                self._reading.cancel()
            else:
                self._reading.deadline = anyio.current_time() + MUTE_TAIL if is_muted else math.inf
        self._changed.set()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            self._changed = anyio.Event()
            track = self._track
            if track is None or self._is_muted:
                await self._changed.wait()
            elif await self._read(track) and self._track is track:  # the publisher has gone, or publishes again
                self._track = None

    async def _read(self, track: rtc.RemoteAudioTrack) -> bool:
        """Read until cancelled by another track; return whether the track ended by itself."""
        rate, on_frame = self._rate, self._watch.frame
        stream = rtc.AudioStream(
            track,
            capacity=AUDIO_CAPACITY,
            sample_rate=rate,
            num_channels=1,
            frame_size_ms=round(FRAME_SECONDS * 1000),
        )
        try:
            with anyio.CancelScope() as self._reading:
                async for event in stream:
                    on_frame(AudioFrame(bytes(event.frame.data), rate))
            self._watch.stop()
            return not self._reading.cancelled_caught
        finally:
            self._watch.close()
            self._reading = None
            with anyio.move_on_after(CLOSE_LIMIT, shield=True) as limit:
                await stream.aclose()
            if limit.cancelled_caught:
                logger.warning("an audio stream did not close within %s s and was left behind", CLOSE_LIMIT)


class TextReader:
    """Reads the typed texts of the linked participant, one after another; texts of others are closed unread.

    A LiveKit server may announce a participant that publishes nothing up to 3 s after it has joined, later than its
    first text. So texts that come before a participant is linked wait for the link.

    Args:
        identity: Identity of the participant, if known before the link.
        on_text: Called with each complete text.
        max_characters: A longer text is dropped.
    """

    def __init__(
        self, identity: str | None, on_text: Callable[[str], None], *, max_characters: int = MAX_TEXT_CHARACTERS
    ) -> None:
        self._identity = identity
        self._max_characters = max_characters
        self._on_text = on_text
        self._early: list[tuple[rtc.TextStreamReader, str]] = []
        self._waiting: deque[rtc.TextStreamReader] = deque()
        self._came = anyio.Event()

    def link(self, identity: str) -> None:
        """Read this participant's texts from now on."""
        self._identity = identity
        early, self._early = self._early, []
        for reader, sender in early:
            self.add(reader, sender)

    def add(self, reader: rtc.TextStreamReader, sender: str) -> None:
        """Take a text that begins to arrive; called by the SDK."""
        if self._identity is not None and sender != self._identity:
            reader.close()
        elif len(self._early) + len(self._waiting) >= MAX_TEXTS:
            logger.warning("more than %s typed texts are waiting; one is dropped", MAX_TEXTS)
            reader.close()
        elif self._identity is None:
            self._early.append((reader, sender))
        else:
            self._waiting.append(reader)
            self._came.set()

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            while True:
                self._came = anyio.Event()
                while self._waiting:
                    text = await self._read(self._waiting.popleft())
                    if text:
                        self._on_text(text)
                await self._came.wait()
        finally:
            for reader in [*self._waiting, *(reader for reader, _ in self._early)]:
                reader.close()
            self._waiting.clear()
            self._early.clear()

    async def _read(self, reader: rtc.TextStreamReader) -> str:
        parts: list[str] = []
        size = 0
        try:
            with anyio.fail_after(TEXT_LIMIT):
                async for part in reader:
                    parts.append(part)
                    size += len(part)
                    if size > self._max_characters:
                        logger.warning("a typed text is longer than %s characters; dropped", self._max_characters)
                        return ""
        except (ConnectionError, TimeoutError) as error:
            logger.warning("a typed text did not arrive whole; dropped: %s", error or "too slow")
            return ""
        finally:
            reader.close()
        return "".join(parts)
