"""Track: one side of a recording; pieces of audio with their times become one unbroken stream of samples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.resample import Resampler

TOLERANCE = 0.04
"""Seconds by which a piece's time may be off before a gap is left or what overlaps is dropped: jitter makes neither."""
LONGEST_WAIT = 20.0
"""Seconds of audio that may wait to be taken, so that a disk that hangs does not fill the memory."""


@dataclass(slots=True)
class _Piece:
    """Audio that begins at `start`, or arrived as a whole at `arrived`, in seconds of the recording."""

    data: bytes
    start: float | None = None
    arrived: float = 0.0


class Track:
    """Seconds count from the recording's begin.

    Args:
        rate: Hz of what is taken out.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._pieces: deque[_Piece] = deque()
        self._resampler: Resampler | None = None
        self._input_rate = rate
        self._placed = 0
        """Samples, at the input's rate, that have their place."""
        self._out = bytearray()
        self._taken = 0
        """Samples, at `rate`, that were taken out."""
        self.dropped_pieces = 0

    def heard(self, frame: AudioFrame, now: float) -> None:
        """A frame came in, which ended now at the latest."""
        self._add(frame, _Piece(frame.data, arrived=now))

    def plays(self, frame: AudioFrame, start: float) -> None:
        """A frame was written that will be played from `start` on."""
        self._add(frame, _Piece(frame.data, start=start))

    def unplayed(self, samples: int) -> None:
        """The last `samples` samples were taken back: they are never played."""
        while samples > 0 and self._pieces:
            last = self._pieces[-1]
            own = len(last.data) // BYTES_PER_SAMPLE
            if own > samples:
                last.data = last.data[: (own - samples) * BYTES_PER_SAMPLE]
                return
            self._pieces.pop()
            samples -= own

    def take(self, until: float, *, is_last: bool = False) -> bytearray:
        """Place what begins before `until` and return what waits to be written, which the caller may shorten.

        Args:
            is_last: Nothing more comes: the result ends exactly at `until`.
        """
        self._place(until)
        if is_last or self._placed / self._input_rate < until - TOLERANCE:
            self._silence(until)
        if is_last:
            del self._out[max(0, round(until * self._rate) - self._taken) * BYTES_PER_SAMPLE :]
        return self._out

    def forget(self, samples: int) -> None:
        """That many samples of what `take` returned are written."""
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
        """The first frame tells the rate; a later change, which no transport makes, costs what waits."""
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
                piece.start = None  # later ones may tell better

    def _estimate_starts(self) -> None:
        """Frames may come in late, in a burst: one began no later than those behind it, which came in time, allow."""
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
        """Fill up with silence."""
        self._flush()
        missing = round(until * self._rate) - self._taken - len(self._out) // BYTES_PER_SAMPLE
        self._out += bytes(max(0, missing) * BYTES_PER_SAMPLE)
        self._placed = max(self._placed, round(until * self._input_rate))

    def _flush(self) -> None:
        if self._resampler is not None:
            self._out += self._resampler.flush().data
            self._resampler = None
