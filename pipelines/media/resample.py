"""Explicit change of sample rate, streaming, by soxr (loaded on first use)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.media.frame import AudioFrame

if TYPE_CHECKING:
    import soxr


class Resampler:
    """Changes the rate of one mono stream; free when the rates are equal.

    soxr runs in its mode of variable rate, with a rate that stays: its filter keeps 90 % of the band that both rates
    have, and the delay is constant. In its mode of fixed rate it works in blocks: quality LQ kept 75 % of the band, and
    was up to 22 ms late, at 8 kHz up to 77 ms. A second of audio takes 0.5 to 3 ms of CPU, some ten times as much.

    Args:
        input_rate: Hz of the frames pushed.
        output_rate: Hz of the frames returned.
    """

    def __init__(self, input_rate: int, output_rate: int) -> None:
        self.input_rate = input_rate
        self.output_rate = output_rate
        self._stream: soxr.ResampleStream | None = None
        self.held = 0.0
        """Seconds of the input that it has not returned yet: 5 to 15 ms at usual rates, 15 to 30 ms at 8 kHz."""

    def push(self, frame: AudioFrame) -> AudioFrame:
        """Return the resampled audio; it may be shorter than the input, even empty, while soxr looks ahead.

        Raises:
            ValueError: The frame's rate is not `input_rate`, or it is not mono.
        """
        if frame.sample_rate != self.input_rate or frame.num_channels != 1:
            raise ValueError(
                f"needed a mono frame of {self.input_rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); convert it first"
            )
        if self.input_rate == self.output_rate:
            return frame
        changed = self._run(frame, last=False)
        self.held += frame.duration - changed.duration
        return changed

    def flush(self) -> AudioFrame:
        """Return the samples that soxr still holds and start again."""
        empty = AudioFrame(b"", self.input_rate)
        if self._stream is None:
            return AudioFrame(b"", self.output_rate)
        out = self._run(empty, last=True)
        self._stream = None
        self.held = 0.0
        return out

    def _run(self, frame: AudioFrame, *, last: bool) -> AudioFrame:
        if self._stream is None:
            from vivavoce.pipelines.core.native_threads import soxr

            self._stream = soxr.ResampleStream(self.input_rate, self.output_rate, 1, dtype="int16", vr=True)
        return AudioFrame(self._stream.resample_chunk(frame.to_numpy(), last=last).tobytes(), self.output_rate)
