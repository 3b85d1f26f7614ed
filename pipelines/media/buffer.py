"""Cutting and keeping samples: pieces of any size to frames of one size, and a bounded ring of the newest audio."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame


class FrameChunker:
    """Turns mono pieces of any length into frames of `seconds` each.

    Args:
        sample_rate: Hz of everything pushed.
        seconds: Length of the frames that come out.
    """

    def __init__(self, sample_rate: int, seconds: float = FRAME_SECONDS) -> None:
        self._rate = sample_rate
        self._size = BYTES_PER_SAMPLE * round(sample_rate * seconds)
        self._rest = bytearray()

    def push(self, data: bytes) -> Iterator[AudioFrame]:
        """Take 16-bit mono PCM and yield the frames that are now full."""
        if not self._rest and len(data) == self._size:
            yield AudioFrame(data, self._rate)
            return
        self._rest += data
        while len(self._rest) >= self._size:
            chunk = bytes(self._rest[: self._size])
            del self._rest[: self._size]
            yield AudioFrame(chunk, self._rate)

    def flush(self) -> AudioFrame | None:
        """Return what is left as one shorter frame, or None."""
        if not self._rest:
            return None
        frame = AudioFrame(bytes(self._rest), self._rate)
        self._rest.clear()
        return frame


class RecentFrames:
    """The newest frames up to `seconds`; older ones are dropped and counted.

    For a stage that must wait, such as a speech recogniser that is being connected again.
    """

    def __init__(self, seconds: float) -> None:
        self._limit = seconds
        self._frames: deque[AudioFrame] = deque()
        self._seconds = 0.0
        self.dropped = 0

    def push(self, frame: AudioFrame) -> None:
        """Keep `frame`, dropping the oldest beyond the limit."""
        self._frames.append(frame)
        self._seconds += frame.duration
        while self._seconds > self._limit and len(self._frames) > 1:
            self._seconds -= self._frames.popleft().duration
            self.dropped += 1

    def drain(self) -> list[AudioFrame]:
        """Return and forget all kept frames, oldest first."""
        frames = list(self._frames)
        self._frames.clear()
        self._seconds = 0.0
        return frames
