"""Scripted components that tests of both pipelines share: a turn detector and a denoiser."""

from __future__ import annotations

import anyio

from vivavoce.pipelines.denoise.base import DenoiseCapabilities, Denoiser, DenoiseStream
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.turn_detector.base import (
    EndOfTurnPrediction,
    TurnContext,
    TurnDetector,
    TurnDetectorCapabilities,
    TurnDetectorStream,
)


class Judge(TurnDetector, TurnDetectorStream):
    """Gives its verdict after a delay, or fails."""

    provider = "judge"

    def __init__(
        self, *, delay: float = 0.0, error: Exception | None = None, complete: bool = False, needs_audio: bool = False
    ) -> None:
        self._delay = delay
        self._error = error
        self._complete = complete
        self._needs_audio = needs_audio
        self.asked: list[TurnContext] = []
        self.pushed_seconds = 0.0
        self.is_closed = False

    @property
    def capabilities(self) -> TurnDetectorCapabilities:
        return TurnDetectorCapabilities(needs_audio=self._needs_audio, sample_rate=8000)

    def open(self) -> TurnDetectorStream:
        return self

    def push(self, frame: AudioFrame) -> None:
        assert frame.sample_rate == 8000
        self.pushed_seconds += frame.duration

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        self.asked.append(context)
        await anyio.sleep(self._delay)
        if self._error is not None:
            raise self._error
        return EndOfTurnPrediction(complete=self._complete, probability=0.25)

    def close(self) -> None:
        self.is_closed = True


class Muter(Denoiser, DenoiseStream):
    """Makes audio silent.

    Args:
        delay: Seconds in its capabilities; its output has no delay.
        until: Seconds of audio after which frames pass as they are.
    """

    provider = "muter"

    def __init__(self, *, sample_rate: int = 48000, delay: float = 0.01, until: float = float("inf")) -> None:
        self._rate = sample_rate
        self._delay = delay
        self._until = until
        self.pushed_seconds = 0.0
        self.is_closed = False

    @property
    def capabilities(self) -> DenoiseCapabilities:
        return DenoiseCapabilities(sample_rate=self._rate, delay=self._delay)

    def open(self) -> DenoiseStream:
        return self

    def push(self, frame: AudioFrame) -> AudioFrame:
        assert frame.sample_rate == self._rate
        self.pushed_seconds += frame.duration
        if self.pushed_seconds > self._until:
            return frame
        return AudioFrame(bytes(len(frame.data)), frame.sample_rate)

    def close(self) -> None:
        self.is_closed = True
