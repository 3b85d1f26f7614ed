"""Segmenter: turns the model's speech probabilities, window by window, into onsets, pauses and offsets. Pure."""

from __future__ import annotations

from vivavoce.pipelines.vad.base import VADOptions

HYSTERESIS = 0.15
"""How far below the threshold a probability must fall to end speech; Silero's recommendation."""

LOWEST_EXIT = 0.01


class Segmenter:
    """Decides the starts and ends of speech. Positions are samples since the last `reset()`.

    Args:
        options: Threshold and shortest speech and silence.
        window: Samples per probability.
        sample_rate: Hz.
        onset_lag: Seconds by which the model's first speech window starts after the true onset; negative for early.
        offset_lag: Seconds by which the model's last speech window ends after the true offset.
    """

    def __init__(
        self, options: VADOptions, *, window: int, sample_rate: int, onset_lag: float, offset_lag: float
    ) -> None:
        self._enter = options.threshold
        self._exit = max(options.threshold - HYSTERESIS, LOWEST_EXIT)
        self._min_speech = round(options.min_speech * sample_rate)
        self._min_silence = round(options.min_silence * sample_rate)
        self._window = window
        self._onset_lag = round(onset_lag * sample_rate)
        self._offset_lag = round(offset_lag * sample_rate)
        self.reset()

    def reset(self) -> None:
        """Start again at position 0 in silence."""
        self._position = 0
        self._speaking = False
        self._candidate: int | None = None
        self._silence: int | None = None
        self._edge = 0
        """Position of the last onset, offset or end of a pause; the next one is not before it."""

    def push(self, probability: float) -> tuple[str, int] | None:
        """Take the next window's probability; return the change that becomes known by it and its position.

        A change is "started", "paused" (the last voiced audio of speech that goes on so far), "resumed" or "ended".
        """
        start, self._position = self._position, self._position + self._window
        return self._in_speech(probability, start) if self._speaking else self._in_silence(probability, start)

    def _in_silence(self, probability: float, start: int) -> tuple[str, int] | None:
        if probability < (self._enter if self._candidate is None else self._exit):
            self._candidate = None
            return None
        if self._candidate is None:
            self._candidate = start
        if self._position - self._candidate < self._min_speech:
            return None
        self._edge = max(self._candidate - self._onset_lag, self._edge)
        self._speaking, self._candidate, self._silence = True, None, None
        return "started", self._edge

    def _in_speech(self, probability: float, start: int) -> tuple[str, int] | None:
        if probability >= self._enter:
            paused, self._silence = self._silence, None
            if paused is None:
                return None
            self._edge = max(start - self._onset_lag, paused)
            return "resumed", self._edge
        is_pause = self._silence is None
        if self._silence is None:
            if probability >= self._exit:
                return None
            self._silence = max(start - self._offset_lag, self._edge)
        if self._position - self._silence < self._min_silence:
            return ("paused", self._silence) if is_pause else None
        self._speaking, self._edge = False, self._silence
        return "ended", self._edge
