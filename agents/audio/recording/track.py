"""Track: one side of a recording; makes one unbroken stream of samples from pieces of audio and their times."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.resample import Resampler

TOLERANCE = 0.04
"""Seconds of error in a piece's time that make neither a gap nor an overlap: jitter."""
LONGEST_WAIT = 20.0
"""Seconds of audio that may wait for `take()`, so that a disk that hangs does not fill the memory."""


@dataclass(slots=True)
class _Piece:
    """Audio that begins at `start`, or arrived as a whole at `arrived`, in seconds of the recording."""

    data: bytes
    start: float | None = None
    arrived: float = 0.0


class Track:
    """The audio of one side. Times are seconds from the recording's begin.

    Args:
        rate: Hz of the samples that `take()` returns.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._pieces: deque[_Piece] = deque()
        self._resampler: Resampler | None = None
        self._input_rate = rate
        self._placed = 0
        """Samples, at the input's rate, that have been placed."""
        self._out = bytearray()
        self._taken = 0
        """Samples, at `rate`, that `forget()` has removed."""
        self.dropped_pieces = 0

    def heard(self, frame: AudioFrame, now: float) -> None:
        """Add a frame that came in, and ended now at the latest."""
        self._add(frame, _Piece(frame.data, arrived=now))

    def plays(self, frame: AudioFrame, start: float) -> None:
        """Add a frame that was written, and is played from `start` on."""
        self._add(frame, _Piece(frame.data, start=start))

    def unplayed(self, samples: int) -> None:
        """Remove the last `samples` samples, which are never played."""
        while samples > 0 and self._pieces:
            last = self._pieces[-1]
            own = len(last.data) // BYTES_PER_SAMPLE
            if own > samples:
                last.data = last.data[: (own - samples) * BYTES_PER_SAMPLE]
                return
            self._pieces.pop()
            samples -= own

    def take(self, until: float, *, is_last: bool = False) -> bytearray:
        """Place the pieces that begin before `until`, and return all samples that wait to be written.

        Args:
            is_last: Whether no more audio comes: the result ends exactly at `until`.
        """
        self._place(until)
        if is_last or self._placed / self._input_rate < until - TOLERANCE:
            self._silence(until)
        if is_last:
            del self._out[max(0, round(until * self._rate) - self._taken) * BYTES_PER_SAMPLE :]
        return self._out

    def forget(self, samples: int) -> None:
        """Remove the first `samples` samples of those that `take` returned: they are written."""
        del self._out[: samples * BYTES_PER_SAMPLE]
        self._taken += samples

    def _add(self, frame: AudioFrame, piece: _Piece) -> None:
        if frame.sample_rate != self._input_rate:
            self._change_rate(frame.sample_rate)
        self._pieces.append(piece)
        if len(self._pieces) > LONGEST_WAIT / max(frame.duration, 0.001):
            self._pieces.popleft()
            self.dropped_pieces += 1

    def _change_rate(self, rate: int) -> None:
        """Take the rate of the first frame. A later change, which no transport makes, loses the waiting audio."""
        seconds = self._placed / self._input_rate
        self._flush()
        self._pieces.clear()
        self._input_rate = rate
        self._placed = round(seconds * rate)

    def _place(self, until: float) -> None:
        self._estimate_starts()
        while self._pieces:
            piece = self._pieces[0]
            assert piece.start is not None
            if piece.start >= until:
                break
            self._pieces.popleft()
            at, data = round(piece.start * self._input_rate), piece.data
            off = (at - self._placed) / self._input_rate
            if off > TOLERANCE:
                self._silence(piece.start)
            elif off < -TOLERANCE:
                data = data[(self._placed - at) * BYTES_PER_SAMPLE :]
            self._append(data)
        for piece in self._pieces:
            if piece.arrived:
                piece.start = None  # later pieces may give a better estimate

    def _estimate_starts(self) -> None:
        """Estimate the starts. Frames may arrive late, in a burst: the punctual frames after them bound their times."""
        following: float | None = None
        for piece in reversed(self._pieces):
            if piece.start is None:
                seconds = len(piece.data) / (BYTES_PER_SAMPLE * self._input_rate)
                ended = piece.arrived if following is None else min(piece.arrived, following)
                piece.start = max(0.0, ended - seconds)
            following = piece.start

    def _append(self, data: bytes) -> None:
        if self._input_rate == self._rate:
            self._out += data
        elif data:
            if self._resampler is None:
                self._resampler = Resampler(self._input_rate, self._rate)
            self._out += self._resampler.push(AudioFrame(data, self._input_rate)).data
        self._placed += len(data) // BYTES_PER_SAMPLE

    def _silence(self, until: float) -> None:
        """Fill with silence up to that time."""
        self._flush()
        missing = round(until * self._rate) - self._taken - len(self._out) // BYTES_PER_SAMPLE
        self._out += bytes(max(0, missing) * BYTES_PER_SAMPLE)
        self._placed = max(self._placed, round(until * self._input_rate))

    def _flush(self) -> None:
        if self._resampler is not None:
            self._out += self._resampler.flush().data
            self._resampler = None
