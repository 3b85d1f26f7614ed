"""UtteranceCutter: cuts a stream's audio into utterances, by the VAD's reports. Pure."""

from __future__ import annotations

from collections import deque

from vivavoce.pipelines.media.frame import AudioFrame

MAX_AGO = 1.0
"""Seconds by which the VAD may report an onset late."""

PRE_ROLL = 0.2
"""Seconds of audio before the onset that an utterance begins with: soft onsets are not lost."""

OVERLAP = 0.1
"""Seconds before the last `end()` that the next utterance may repeat as its pre-roll."""


class UtteranceCutter:
    """For recognisers that take utterances: audio between them is only kept for a moment, so silence costs nothing.

    Args:
        owner: The recogniser's name in errors, such as "pocketsphinx.STT".
        sample_rate: Hz of its audio.
    """

    def __init__(self, owner: str, sample_rate: int) -> None:
        self._owner = owner
        self._rate = sample_rate
        self._recent: deque[AudioFrame] = deque()
        self._kept = 0
        self._pushed = 0
        self._ended = 0
        self.is_open = False
        """Whether an utterance is open."""

    def push(self, frame: AudioFrame) -> bool:
        """Take a frame; return whether it belongs to an open utterance.

        Raises:
            ValueError: It has another rate or more channels.
        """
        if frame.sample_rate != self._rate or frame.num_channels != 1:
            raise ValueError(
                f"{self._owner} needs mono frames of {self._rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample first"
            )
        self._pushed += frame.samples
        self._recent.append(frame)
        self._kept += frame.samples
        while self._kept - self._recent[0].samples >= (PRE_ROLL + MAX_AGO) * self._rate:
            self._kept -= self._recent.popleft().samples
        return self.is_open

    def begin(self, ago: float) -> list[bytes]:
        """Open an utterance whose speech began `ago` seconds before the newest audio; return its audio so far."""
        self.is_open = True
        onset = self._pushed - round(ago * self._rate)
        if onset == self._ended:  # the speech before that end goes on: none of its words may be heard twice
            return []
        begin = onset - round(PRE_ROLL * self._rate)
        begin = max(begin, min(onset, self._ended - round(OVERLAP * self._rate)))
        end = self._pushed - self._kept
        audio = []
        for frame in self._recent:
            end += frame.samples
            if end > begin:
                audio.append(frame.data)
        return audio

    def end(self) -> bool:
        """End the utterance here; return whether one was open."""
        was_open, self.is_open = self.is_open, False
        self._ended = self._pushed
        return was_open
