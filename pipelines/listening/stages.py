"""Listener and Resampled: one stage of the frame path, and a stage at another sample rate."""

from __future__ import annotations

from typing import Protocol

from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler


class Listener(Protocol):
    """A stage that receives the caller's audio."""

    def push(self, frame: AudioFrame) -> None:
        """Take the next mono frame. Must not block."""


class Resampled:
    """A listener at another sample rate."""

    def __init__(self, listener: Listener, input_rate: int, output_rate: int) -> None:
        self._listener = listener
        self._resampler = Resampler(input_rate, output_rate)

    def __repr__(self) -> str:
        return f"{self._listener!r} at {self._resampler.output_rate} Hz"

    @property
    def held(self) -> float:
        """Seconds of audio that are not passed on yet."""
        return self._resampler.held

    def push(self, frame: AudioFrame) -> None:
        """Resample a frame and pass it on."""
        changed = self._resampler.push(frame)
        if changed.data:
            self._listener.push(changed)


def resampled(listener: Listener, input_rate: int, output_rate: int) -> Listener:
    """Return the listener itself if the rates are equal, else a `Resampled` one."""
    return listener if input_rate == output_rate else Resampled(listener, input_rate, output_rate)
