"""LoopedFile: an audio file at a given rate, once or for ever, with ends that do not click; read in a thread."""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.pipelines.core.errors import AudioFileError
from vivavoce.pipelines.media.audio_file import PIECE_SECONDS, AudioFileReader
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.gain import ramp
from vivavoce.pipelines.media.resample import Resampler

SEAM_SECONDS = 0.005
"""Seconds for which the ends are faded if they do not meet."""
KEPT_SECONDS = 5.0
"""A file up to this length is read once and kept; a longer one is read again in each round."""


class LoopedFile:
    """Reads a file in a loop that is exact to the sample; the resampler runs on through the seam.

    If the step from the last to the first sample is larger than the steps close to it, both ends are faded for 5 ms; a
    loop whose ends meet is unchanged. The end of a file that is not looped is faded in the same way. `read` blocks and
    is meant for one thread at a time; `close` may be called meanwhile, as with `AudioFileReader`.

    Args:
        rate: Hz of the returned frames.
    """

    def __init__(self, path: str, rate: int, *, is_looping: bool) -> None:
        self._path = path
        self._rate = rate
        self._is_looping = is_looping
        self._reader = AudioFileReader(path)
        self._resampler: Resampler | None = None
        self._kept: list[AudioFrame] | None = []
        self._is_whole = False
        self._pieces = self._go_round()

    def read(self) -> AudioFrame | None:
        """Return the next second or so; None at the end of a file that is not looped.

        Raises:
            AudioFileError: It is gone, broken, of no known kind or empty.
            ConfigurationError: It is no PCM WAV, and the extra `audio` is not installed.
        """
        data, wanted = bytearray(), PIECE_SECONDS / 2 * self._rate * BYTES_PER_SAMPLE
        for frame in self._pieces:
            data += self._at_rate(frame).data
            if len(data) >= wanted:
                break
        else:
            if self._resampler is not None:
                data += self._resampler.flush().data
        return AudioFrame(bytes(data), self._rate) if data else None

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def _at_rate(self, frame: AudioFrame) -> AudioFrame:
        if self._resampler is None:
            self._resampler = Resampler(frame.sample_rate, self._rate)
        return self._resampler.push(frame)

    def _go_round(self) -> Iterator[AudioFrame]:
        head, meets = b"", True
        while True:
            held, rate, is_start = b"", 0, True
            for frame in self._pass():
                rate = frame.sample_rate
                seam = BYTES_PER_SAMPLE * round(SEAM_SECONDS * rate)
                data = held + frame.data
                if is_start:
                    head = head or data[:seam]
                    if not meets:
                        data = ramp(data[:seam], 0.0, 1.0) + data[seam:]
                    is_start = False
                held = data[-seam:]  # until the next read shows whether more comes
                if len(data) > len(held):
                    yield AudioFrame(data[: -len(held)], rate)
            if is_start:
                raise AudioFileError(f"the audio file {self._path!r} holds no audio")
            meets = _meet(held, head if self._is_looping else bytes(BYTES_PER_SAMPLE))
            yield AudioFrame(held if meets else ramp(held, 1.0, 0.0), rate)
            if not self._is_looping:
                return

    def _pass(self) -> Iterator[AudioFrame]:
        """The file from its start to its end."""
        if self._is_whole and self._kept is not None:
            yield from self._kept
            return
        kept = 0.0
        self._reader.rewind()
        while (frame := self._reader.read()) is not None:
            kept += frame.duration
            if self._kept is not None and kept <= KEPT_SECONDS and self._is_looping:
                self._kept.append(frame)
            else:
                self._kept = None
            yield frame
        self._is_whole = not self._reader.is_closed


def _meet(tail: bytes, head: bytes) -> bool:
    """Return whether the step from the last sample of `tail` to the first of `head` is like the steps beside it."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    before, after = (np.frombuffer(part, dtype=np.int16).astype(np.int32) for part in (tail, head))
    beside = max(np.abs(np.diff(part)).max(initial=0) for part in (before, after))
    return bool(abs(after[0] - before[-1]) <= 2 * beside + 1)
