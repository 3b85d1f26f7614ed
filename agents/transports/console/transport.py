"""ConsoleTransport: a session's link to the person at this machine; and the port `AudioEnds` for its audio."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.transports.console.echo import EchoCanceller
from vivavoce.agents.transports.console.speaker import SpeakerQueue
from vivavoce.agents.transports.frame_watch import FrameWatch
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.io import AudioSink, PartMessage, Transport, TransportEvents
from vivavoce.pipelines.media.buffer import FrameChunker
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler

RATE = 48000
"""Hz at the ends."""
BLOCK = RATE // 100
"""Samples of a block at the ends: 10 ms."""
SESSION_RATE = 16000
WHO = "console"
"""The participant's identity."""
SILENCE = -96.0
"""Decibels of full scale that stand for silence."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Callbacks for the ends of a conversation.

    Args:
        take: Returns the given number of samples for the speakers, 16-bit mono PCM of `RATE`; from any thread.
        played: Receives the taken samples, on the session's loop.
        heard: Receives the microphone's audio, on the session's loop.
        delay: Receives how many seconds the devices delay a sound between `take` and `heard`.
        gone: Receives the reason why no more audio comes.
    """

    take: Callable[[int], bytes]
    played: Callable[[bytes], None]
    heard: Callable[[bytes], None]
    delay: Callable[[float], None]
    gone: Callable[[str], None]


class AudioEnds(ABC):
    """Source and sink of a conversation's audio."""

    @property
    def echoes(self) -> bool:
        """Whether the microphone may hear the speakers."""
        return True

    @abstractmethod
    async def run(self, exchange: Exchange, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open, call `task_status.started()`, exchange audio until cancelled, close.

        Raises:
            RoomError: The ends cannot be opened.
        """


class ConsoleTransport(Transport):
    """A person at this machine, present from the start.

    Args:
        ends: Microphone and speakers, or their replacement.
        clock: Session time.
        cancels_echo: Whether to remove the speakers' sound from the microphone's, if the microphone can hear it.
    """

    input_rate = SESSION_RATE

    def __init__(self, ends: AudioEnds, clock: Clock, *, cancels_echo: bool = True) -> None:
        self._ends = ends
        self._sink = SpeakerQueue(clock, sample_rate=RATE)
        self._cancels_echo = cancels_echo
        self._echo: EchoCanceller | None = None
        self._down = Resampler(RATE, SESSION_RATE)
        self._frames = FrameChunker(SESSION_RATE)
        self._clock = clock
        self._events: TransportEvents | None = None
        self._watch: FrameWatch | None = None
        self._show: Callable[[str], None] | None = None
        self.level = SILENCE
        """Level of the microphone in the last 20 ms, in decibels of full scale, after echo cancellation."""

    @property
    def sink(self) -> AudioSink:
        return self._sink

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self._events = events
        if self._cancels_echo and self._ends.echoes:
            self._echo = EchoCanceller(RATE)
        self._watch = watch = FrameWatch(self._clock, events.audio, events.audio_stopped)
        exchange = Exchange(self._sink.take, self._on_played, self._on_heard, self._on_delay, events.closed)
        events.participant_linked(WHO)
        try:
            await self._ends.run(exchange, task_status=task_status)
        finally:
            watch.close()
            self._events = self._watch = None

    async def hangup(self) -> None:
        if self._events is not None:  # the person here cannot be sent away: the conversation ends instead
            self._events.closed("the agent has hung up")

    def show_parts(self, show: Callable[[str], None]) -> None:
        """Call `show` with each part of a rich reply as text; without it parts are not shown."""
        self._show = show

    def send_part(self, message: PartMessage) -> None:
        if self._show is not None and message.plain:
            self._show(message.plain)

    def type(self, text: str) -> None:
        """Enter a typed text of the person."""
        if self._events is not None:
            self._events.text(text)

    def _on_played(self, data: bytes) -> None:
        self._sink.count_out()
        if self._echo is not None:
            self._echo.played(data)

    def _on_delay(self, seconds: float) -> None:
        if self._echo is not None:
            self._echo.set_delay(seconds)

    def _on_heard(self, data: bytes) -> None:
        if self._echo is not None:
            data = self._echo.clean(data)
        for frame in self._frames.push(self._down.push(AudioFrame(data, RATE)).data):
            self.level = decibels(frame)
            if self._watch is not None:
                self._watch.frame(frame)


def decibels(frame: AudioFrame) -> float:
    """Return how loud a frame is: its RMS in decibels of full scale."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    samples = frame.to_numpy().astype(np.float32) / 32768
    power = float(np.mean(np.square(samples))) if len(samples) else 0.0
    return max(SILENCE, 10 * math.log10(power)) if power > 0 else SILENCE
