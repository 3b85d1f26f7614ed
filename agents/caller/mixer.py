"""VoiceMixer: the voices of a call's far end as one sequence of 20 ms frames that continues when no voice does."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from vivavoce.agents.caller.line import SAMPLE_RATE
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

STALL = 0.5
"""Seconds without a frame after which time continues without frames."""
LATE = 0.05
"""Seconds that arrived frames may need on their way through a busy event loop."""
LEAD_LIMIT = 0.1
"""Seconds without a frame of the leading voice, after which another one leads."""
MAX_WAITING = 5
"""Frames of a voice that wait to be mixed into the leading one; older ones are left out."""


@dataclass(slots=True, eq=False)
class Voice:
    """A voice of the far end; `listening` is cancelled when it has gone."""

    waiting: deque[AudioFrame] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    listening: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class VoiceMixer:
    """`take` arriving frames, `next_frame` when it is due: arriving frames are the clock, as long as they come."""

    def __init__(self) -> None:
        self._voices: list[Voice] = []
        self._lead: Voice | None = None
        self._lead_at = -math.inf
        self._frames: deque[AudioFrame] = deque()
        self._until = 0.0
        """Time up to which frames were returned, by the event loop's clock."""
        self._has_stalled = False
        self._news = anyio.Event()

    def start(self) -> None:
        """Begin the clock, now."""
        self._until = anyio.current_time()

    def add(self, voice: Voice) -> None:
        """Expect frames of a voice."""
        self._voices.append(voice)

    def remove(self, voice: Voice) -> None:
        """Expect no more of a voice; without any, time continues in silence at once."""
        self._voices.remove(voice)
        voice.listening.cancel()
        if self._lead is voice:
            self._lead = None
        self._news.set()

    def take(self, voice: Voice, frame: AudioFrame) -> None:
        """Take 20 ms of a voice: the voice that came first leads, and the others are mixed into it."""
        if voice not in self._voices:
            return
        now = anyio.current_time()
        if self._lead is None or (voice is not self._lead and now - self._lead_at > LEAD_LIMIT):
            self._lead = voice
            voice.waiting.clear()
        if voice is not self._lead:
            voice.waiting.append(frame)
            return
        self._lead_at = now
        others = [other.waiting.popleft() for other in self._voices if other is not voice and other.waiting]
        self._frames.append(_mixed([frame, *others]) if others else frame)
        self._news.set()

    async def next_frame(self) -> AudioFrame:
        """Return the next 20 ms when they are due: arrived audio, or silence."""
        while not self._frames:
            goes_on = self._has_stalled or not self._voices
            if await self._waited(self._until + (FRAME_SECONDS if goes_on else STALL) - anyio.current_time()):
                continue
            if goes_on:
                self._until += FRAME_SECONDS
                return AudioFrame.silence(FRAME_SECONDS, SAMPLE_RATE)
            self._has_stalled = not await self._waited(LATE)
        self._has_stalled = False
        self._until = anyio.current_time()
        return self._frames.popleft()

    async def _waited(self, limit: float) -> bool:
        """Whether there was news within `limit` seconds."""
        self._news = anyio.Event()
        with anyio.move_on_after(limit) as scope:
            await self._news.wait()
        return not scope.cancelled_caught


def _mixed(frames: Sequence[AudioFrame]) -> AudioFrame:
    from vivavoce.pipelines.core.native_threads import numpy as np

    total = np.sum([frame.to_numpy().reshape(-1) for frame in frames], axis=0, dtype=np.int32)
    return AudioFrame(np.clip(total, -32768, 32767).astype(np.int16).tobytes(), SAMPLE_RATE)
