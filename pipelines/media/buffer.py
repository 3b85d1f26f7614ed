"""Cutting and keeping samples: into frames of one size, a bounded ring of the newest, and a store read by position."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame

MAX_PIECE_BYTES = 1 << 16
"""Size limit of one piece in a `SampleStore`: 1.4 s at 24 kHz."""


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
        """Return the rest as one shorter frame, or None."""
        if not self._rest:
            return None
        frame = AudioFrame(bytes(self._rest), self._rate)
        self._rest.clear()
        return frame


class RecentFrames:
    """The newest frames up to `seconds`; older ones are dropped and counted.

    For a stage that must wait, such as an STT that connects again.

    Args:
        on_drop: Called for each dropped frame, if that is a loss.
    """

    def __init__(self, seconds: float, on_drop: Callable[[], None] | None = None) -> None:
        self._limit = _nanoseconds(seconds)
        self._on_drop = on_drop
        self._frames: deque[AudioFrame] = deque()
        self._kept = 0  # whole nanoseconds: a sum of floats drifts, and 3 s of frames would be one frame short
        self.dropped = 0

    def push(self, frame: AudioFrame) -> None:
        """Keep `frame`, dropping the oldest beyond the limit."""
        self._frames.append(frame)
        self._kept += _nanoseconds(frame.duration)
        while self._kept > self._limit and len(self._frames) > 1:
            self._kept -= _nanoseconds(self._frames.popleft().duration)
            self.dropped += 1
            if self._on_drop is not None:
                self._on_drop()

    def forget_until(self, ago: float) -> None:
        """Forget the frames that begin more than `ago` seconds before the end of the newest one."""
        while self._frames and self._kept > _nanoseconds(ago):
            self._kept -= _nanoseconds(self._frames.popleft().duration)

    def drain(self) -> list[AudioFrame]:
        """Return and forget all kept frames, oldest first."""
        frames = list(self._frames)
        self._frames.clear()
        self._kept = 0
        return frames


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


class SampleStore:
    """Mono samples that are read by their position, any number of times, until they are forgotten.

    It keeps the pieces that it was given: a long answer is neither copied nor held in one growing block.
    """

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self.start = 0
        """Position of the oldest sample that is kept."""
        self.end = 0
        """How many samples were appended."""

    def append(self, data: bytes) -> None:
        """Append 16-bit PCM."""
        self.end += len(data) // BYTES_PER_SAMPLE
        if len(data) <= MAX_PIECE_BYTES:
            if data:
                self._pieces.append(data)
            return
        for at in range(0, len(data), MAX_PIECE_BYTES):  # cut, so that samples can be forgotten once they are read
            self._pieces.append(data[at : at + MAX_PIECE_BYTES])

    def read(self, position: int, samples: int) -> bytes:
        """Return up to `samples` samples from `position` on, which must not be forgotten."""
        skip, wanted = (position - self.start) * BYTES_PER_SAMPLE, samples * BYTES_PER_SAMPLE
        found: list[bytes] = []
        for piece in self._pieces:
            size = len(piece)
            if skip >= size:
                skip -= size
                continue
            part = piece[skip : skip + wanted]
            if len(part) == wanted and not found:
                return part
            found.append(part)
            wanted -= len(part)
            skip = 0
            if not wanted:
                break
        return b"".join(found)

    def forget(self, before: int) -> None:
        """Drop the pieces that end at or before that position."""
        while self._pieces and self.start + len(self._pieces[0]) // BYTES_PER_SAMPLE <= before:
            self.start += len(self._pieces.popleft()) // BYTES_PER_SAMPLE

    def clear(self) -> None:
        """Drop everything."""
        self._pieces.clear()
        self.start = self.end
