"""What the tests of the cascading pipeline share: a turn detector that gives the verdict it is told to."""

from __future__ import annotations

import anyio

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
