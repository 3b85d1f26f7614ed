"""LiveKitSink: sends the agent's audio to a LiveKit room, through `rtc.AudioSource`."""

from __future__ import annotations

import logging
from collections import deque

import anyio

from vivavoce.agents.transports.pacing import PacedQueue
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError
from vivavoce.pipelines.core.incidents import dropped_frames
from vivavoce.pipelines.core.native_threads import rtc  # this package's first import of it
from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import AudioFrame

logger = logging.getLogger(__name__)

NATIVE_QUEUE_MS = 200
"""Milliseconds that the native source takes before `capture_frame` waits; far more than playout ever keeps in it."""
MAX_WAITING_SECONDS = 1.0
"""Seconds of audio that may wait for the native source; beyond that the oldest is dropped."""
CAPTURE_LIMIT = 2.0
"""Seconds that the native source may take for one frame."""


class LiveKitSink(AudioSink):
    """Feeds one native audio source, which plays 10 ms at a time by a timer of its own.

    `write` only appends; `pump` hands frames over. The native source cannot report how much audio it still holds, so
    the clock counts that out from the moment of handing over, which is right to within those 10 ms.

    Args:
        clock: Counts out the audio in the native source.
        sample_rate: Hz of the frames written.
    """

    def __init__(self, clock: Clock, *, sample_rate: int) -> None:
        self._capabilities = SinkCapabilities(sample_rate=sample_rate, exact_position=False)
        self._waiting: deque[AudioFrame] = deque()
        self._waiting_samples = 0
        self._native = PacedQueue(clock, sample_rate)
        self._source: rtc.AudioSource | None = None
        self._written = anyio.Event()
        self._clearings = 0
        self._is_stopped = False
        self._is_failing = False
        self.dropped_frames = 0
        """Frames lost because the native source did not take them in time."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._capabilities

    def open(self) -> rtc.AudioSource:
        """Return the native source, made on the first call; it belongs to the running event loop."""
        if self._source is None:
            self._source = rtc.AudioSource(self._capabilities.sample_rate, 1, queue_size_ms=NATIVE_QUEUE_MS)
        return self._source

    def write(self, frame: AudioFrame) -> None:
        rate = self._capabilities.sample_rate
        if frame.sample_rate != rate or frame.num_channels != 1:
            raise ConfigurationError(
                f"the room takes mono audio of {rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample it first, or set RoomOptions(output_rate=...)"
            )
        if self._is_stopped:  # there is no listener; the position continues, so that no code waits for it
            self._native.add(frame.samples)
            return
        if not frame.samples:
            return
        self._waiting.append(frame)
        self._waiting_samples += frame.samples
        while self._waiting_samples > MAX_WAITING_SECONDS * rate:
            self._waiting_samples -= self._waiting.popleft().samples
            self._drop()
        self._written.set()

    def queued(self) -> int:
        return self._waiting_samples + self._native.queued()

    def clear(self) -> int:
        dropped = self._waiting_samples + self._native.clear()
        self._waiting.clear()
        self._waiting_samples = 0
        self._clearings += 1
        if self._source is not None and not self._is_stopped:
            self._source.clear_queue()
        return dropped

    async def pump(self) -> None:
        """Hand over written frames until cancelled, one at a time."""
        source = self.open()
        while True:
            while self._waiting and not self._is_stopped:
                frame = self._waiting.popleft()
                self._waiting_samples -= frame.samples
                await self._hand_over(source, frame)
            self._written = anyio.Event()
            await self._written.wait()

    async def _hand_over(self, source: rtc.AudioSource, frame: AudioFrame) -> None:
        clearings = self._clearings
        self._native.add(frame.samples)
        try:
            with anyio.fail_after(CAPTURE_LIMIT):
                await source.capture_frame(rtc.AudioFrame(frame.data, frame.sample_rate, 1, frame.samples))
        except Exception as error:  # noqa: BLE001 - the SDK raises bare Exception here
            self._report(error)
        else:
            self._is_failing = False
        if clearings != self._clearings and not self._is_stopped:
            source.clear_queue()  # this frame was on its way when the queue was cleared, and arrived after it

    def _drop(self) -> None:
        self.dropped_frames += 1
        dropped_frames("room")

    def _report(self, error: Exception) -> None:
        self._drop()
        if not self._is_failing:  # once per series of failures: there are 50 frames a second
            self._is_failing = True
            cause = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            logger.error("the agent is not heard", exc_info=RoomError(f"the room took no audio: {cause}"))

    def stop(self) -> None:
        """Hand over no more frames. The native library aborts the process if it is fed after the room is gone."""
        self._is_stopped = True
        self._waiting.clear()
        self._waiting_samples = 0

    async def aclose(self) -> None:
        """Free the native source; `pump` must have ended."""
        self.stop()
        source, self._source = self._source, None
        if source is not None:
            source.clear_queue()
            await source.aclose()
