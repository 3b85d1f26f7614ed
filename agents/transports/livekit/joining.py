"""Joining: puts audio that was recorded before the agent came in front of the live audio of the same track. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from vivavoce.agents.transports.livekit.overlap import is_quiet, is_silent, live_begin
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.media.buffer import FrameChunker
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame

LIVE_LIMIT = 0.8
"""Seconds that a recording waits for live audio, and for finding where that begins."""
FIRST_LOOK, NEXT_LOOK = 15, 5
"""Frames of live audio (0.3 s) after which its begin is looked for, and frames until it is looked for again."""
END = 0.5
"""Seconds of the recording's end: sound in it may come again in live audio that is silent so far."""
PAUSE = 0.5
"""A longer time between the end of the recording and the live audio is a pause, of audio that is not known."""
MOST_LOOKED = 50
"""Frames of live audio in which it is looked for: the client stops recording when that begins."""
SLICE = 50
"""Frames (1 s) that are handed on in one step of the event loop."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Audio that the caller's client has recorded.

    Args:
        data: 16-bit mono PCM at the session's rate.
        ended_at: When the recording ended, on the session's clock.
    """

    data: bytes = field(repr=False)
    ended_at: float


class Joining:
    """Keeps the live audio of one track until the recording has come or is given up, and hands both on, in order.

    It is over when no frame is kept any more; live audio then needs no joining.

    Args:
        rate: Hz of all audio.
        on_frame: Called with each frame, and the seconds since its end was said.
        on_stopped: Called behind the frames if no live audio follows them for now.
        on_over: Called at the end.
    """

    def __init__(
        self,
        clock: Clock,
        rate: int,
        *,
        on_frame: Callable[[AudioFrame, float], None],
        on_stopped: Callable[[], None],
        on_over: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._rate = rate
        self._on_frame = on_frame
        self._on_stopped = on_stopped
        self._on_over = on_over
        self._recorded: Recorded | None = None
        self._live: list[AudioFrame] = []
        self._live_began_at: float | None = None
        self._begin: int | None = None
        """The sample of the recording at which the live audio begins, if it is found."""
        self._is_stopped = False
        self._due: deque[AudioFrame] = deque()
        self._behind = 0.0
        """Seconds since the end of the newest frame that is due was said."""
        self._is_handing_on = False
        self._timer: TimerHandle | None = None
        self.is_over = False

    def frame(self, frame: AudioFrame) -> None:
        """Take the next frame of live audio."""
        self._is_stopped, self._behind = False, 0.0
        if self._is_handing_on:
            self._due.append(frame)
            return
        if self._live_began_at is None:
            self._live_began_at = self._clock.now() - frame.duration
        self._live.append(frame)
        more = len(self._live) - FIRST_LOOK
        if self._recorded is not None and more >= 0 and more % NEXT_LOOK == 0:
            self._look(self._recorded)

    def stop(self) -> None:
        """Note that the live audio stops for now."""
        self._is_stopped = True

    def take(self, recorded: Recorded) -> None:
        """Take the recording; it is handed on once it is known where the live audio begins."""
        if self._recorded is not None or self._is_handing_on:
            return
        self._recorded = recorded
        if is_quiet(recorded.data, self._rate):
            self._join()
            return
        self._timer = self._clock.call_at(self._clock.now() + LIVE_LIMIT, self._join)
        if len(self._live) >= FIRST_LOOK:
            self._look(recorded)

    def give_up(self) -> None:
        """Hand the live audio on without a recording."""
        if not self._is_handing_on:
            self._join()

    def close(self) -> None:
        """Drop all that is kept."""
        self._cancel()
        self._live.clear()
        self._due.clear()
        self._end()

    def _look(self, recorded: Recorded) -> None:
        """Look where the live audio begins, and join if that is known."""
        live = b"".join(frame.data for frame in self._live[:MOST_LOOKED])
        self._begin = live_begin(recorded.data, live, self._rate)
        end = recorded.data[-BYTES_PER_SAMPLE * round(END * self._rate) :]
        is_over = is_silent(live) and is_quiet(end, self._rate)
        if self._begin is not None or is_over or len(self._live) >= MOST_LOOKED:
            self._join()

    def _join(self) -> None:
        self._cancel()
        self._is_handing_on = True
        live, self._live = self._live, []
        if self._recorded is not None:
            data = self._before(self._recorded)
            if not live:
                self._behind = max(0.0, self._clock.now() - self._recorded.ended_at)
                self._is_stopped = not is_quiet(data, self._rate)
            lacking = -len(data) % (BYTES_PER_SAMPLE * round(FRAME_SECONDS * self._rate))
            self._due.extend(FrameChunker(self._rate).push(bytes(lacking) + data))
        self._due.extend(live)
        self._hand_on()

    def _before(self, recorded: Recorded) -> bytes:
        """Return the audio before the live audio: what only the recording has, and a pause behind it."""
        if self._begin is not None:
            return recorded.data[: self._begin * BYTES_PER_SAMPLE]
        pause = 0.0 if self._live_began_at is None else self._live_began_at - recorded.ended_at
        silence = AudioFrame.silence(pause, self._rate).data if pause > PAUSE else b""
        return recorded.data + silence

    def _hand_on(self) -> None:
        self._timer = None
        late = self._behind + sum(frame.duration for frame in self._due)
        for _ in range(min(SLICE, len(self._due))):
            frame = self._due.popleft()
            late -= frame.duration
            self._on_frame(frame, max(0.0, late))
        if self._due:
            self._timer = self._clock.call_at(self._clock.now(), self._hand_on)
            return
        if self._is_stopped:
            self._on_stopped()
        self._end()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._on_over()
