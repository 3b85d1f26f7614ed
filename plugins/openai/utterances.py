"""UtteranceStream: cuts utterances out of a stream where the VAD says, each with the moment before its onset."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTEvent

MAX_AGO = 1.0
"""Seconds by which the VAD may report an onset late."""

PRE_ROLL = 0.2
"""Seconds before the VAD's onset that are sent too."""

OVERLAP = 0.1
"""Seconds before the last `flush()` that the next utterance may repeat as its pre-roll."""


class UtteranceStream(base.STTStream):
    """One session's recognition.

    An utterance begins `PRE_ROLL` before the onset of `speech_started()` and ends with `flush()`; audio between
    utterances is only kept.

    Args:
        rate: Hz of the audio.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._recent: deque[AudioFrame] = deque()
        self._kept = 0
        self._pushed = 0
        self._flushed = 0
        self._is_speech = False
        self._is_closed = False
        self._events: Feed[STTEvent] = Feed()

    @abstractmethod
    def _start(self, begin: float) -> None:
        """Begin an utterance, at `begin` seconds of the stream's audio."""

    @abstractmethod
    def _take(self, frame: AudioFrame) -> None:
        """Take audio of it."""

    @abstractmethod
    def _finish(self) -> None:
        """End it; without one, report only that all is settled."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget it, and those without a transcript yet."""

    def push(self, frame: AudioFrame) -> None:
        self._pushed += frame.samples
        self._recent.append(frame)
        self._kept += frame.samples
        while self._kept - self._recent[0].samples >= (PRE_ROLL + MAX_AGO) * self._rate:
            self._kept -= self._recent.popleft().samples
        if self._is_speech:
            self._take(frame)

    def speech_started(self, ago: float) -> None:
        if self._is_speech or self._is_closed:
            return
        self._is_speech = True
        onset = self._pushed - round(ago * self._rate)
        if onset == self._flushed:  # the speech before that flush goes on: none of its words may be heard twice
            self._start(self._pushed / self._rate)
            return
        begin = onset - round(PRE_ROLL * self._rate)
        begin = max(begin, min(onset, self._flushed - round(OVERLAP * self._rate)))
        before, frames, end = self._pushed, [], self._pushed - self._kept
        for frame in self._recent:
            end += frame.samples
            if end > begin:
                frames.append(frame)
                before = min(before, end - frame.samples)
        self._start(before / self._rate)
        for frame in frames:
            self._take(frame)

    def flush(self) -> None:
        self._flushed = self._pushed
        self._is_speech = False
        if not self._is_closed:
            self._finish()

    def discard(self) -> None:
        self._flushed = self._pushed
        self._is_speech = False
        if not self._is_closed:
            self._forget()

    def events(self) -> AsyncIterator[STTEvent]:
        return self._events.items()

    def _end(self, error: ProviderError | None) -> None:
        self._is_closed = True
        self._is_speech = False
        self._events.end(error)
