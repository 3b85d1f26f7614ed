"""ScriptedVAD and ScriptedCaller: speech as frames that are not silent, reported at exact times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.testing.script import LEVEL, tone
from vivavoce.pipelines.vad.base import (
    VAD,
    VADCapabilities,
    VADEvent,
    VADOptions,
    VADSpeechEnded,
    VADSpeechStarted,
    VADStream,
    VADVoicePaused,
    VADVoiceResumed,
)

SPEECH_LEVEL = LEVEL // 10
"""Sample value from which scripted audio is speech: well above a resampler's dither."""


class ScriptedVAD(VAD):
    """Calls a frame speech when its first sample is at least `SPEECH_LEVEL`, and is exact to the sample.

    An onset is reported with the frame that completes `min_speech` of unbroken speech, an offset with the one that
    completes `min_silence`; `ago` is exact. The first silent frame of speech is reported as a pause of the voice, the
    next loud one as its end. `start()` and `end()` report events that no frame holds.

    Args:
        reports_edges: Whether pauses of the voice are reported.
    """

    provider = "scripted"

    def __init__(
        self, options: VADOptions | None = None, *, sample_rate: int = 16000, reports_edges: bool = True
    ) -> None:
        self.options = options or VADOptions()
        self._sample_rate = sample_rate
        self.reports_edges = reports_edges
        self.streams: list[ScriptedVADStream] = []
        """All streams ever opened, oldest first."""

    @property
    def capabilities(self) -> VADCapabilities:
        """The capabilities by the options."""
        return VADCapabilities(
            sample_rate=self._sample_rate,
            min_silence=self.options.min_silence,
            edge_delay=0.0 if self.reports_edges else None,
        )

    def open(self) -> ScriptedVADStream:
        """Return a stream."""
        self.streams.append(ScriptedVADStream(self.options, reports_edges=self.reports_edges))
        return self.streams[-1]

    def start(self, ago: float = 0.0) -> None:
        """Have the newest stream report an onset with the next frame."""
        self.streams[-1].planned.append(VADSpeechStarted(ago))

    def end(self, ago: float = 0.0) -> None:
        """Have the newest stream report an offset with the next frame."""
        self.streams[-1].planned.append(VADSpeechEnded(ago))


class ScriptedVADStream(VADStream):
    """The state of one session."""

    def __init__(self, options: VADOptions, *, reports_edges: bool = True) -> None:
        self._options = options
        self._reports_edges = reports_edges
        self._is_paused = False
        self._position = 0
        self._onset: int | None = None
        self._offset = 0
        self._is_speech = False
        self.is_closed = False
        self.planned: list[VADEvent] = []
        """Reported with the next frame, beside its own events."""

    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        """Take a frame."""
        events, self.planned = self.planned, []
        start = self._position
        self._position += frame.samples
        if abs(int.from_bytes(frame.data[:2], "little", signed=True)) >= SPEECH_LEVEL:
            self._offset = self._position
            if self._onset is None:
                self._onset = start
            speech = (self._position - self._onset) / frame.sample_rate
            if not self._is_speech and speech >= self._options.min_speech:
                self._is_speech = True
                events.append(VADSpeechStarted(speech))
            elif self._is_paused and self._reports_edges:
                events.append(VADVoiceResumed(frame.duration))
            self._is_paused = False
        elif not self._is_speech:
            self._onset = None
        else:
            silence = (self._position - self._offset) / frame.sample_rate
            if silence >= self._options.min_silence:
                self._is_speech, self._onset, self._is_paused = False, None, False
                events.append(VADSpeechEnded(silence))
            elif not self._is_paused:
                self._is_paused = True
                if self._reports_edges:
                    events.append(VADVoicePaused(silence))
        return events

    def reset(self) -> None:
        """Forget the audio so far."""
        self._is_speech, self._onset, self._is_paused = False, None, False

    def close(self) -> None:
        """Record it."""
        self.is_closed = True


class ScriptedCaller:
    """Pushes 20 ms frames at exact times: constant speech by the script, else silence.

    Frame n ends, and is pushed, `n * 0.02` seconds after `run()` was called.

    Args:
        push: Called with the frames, such as `connection.push_audio`.
        speech: (start, end) in seconds from the call of `run()`, at multiples of 0.02.
    """

    def __init__(
        self, push: Callable[[AudioFrame], None], speech: Sequence[tuple[float, float]], *, sample_rate: int = 16000
    ) -> None:
        self._push = push
        self._samples = round(FRAME_SECONDS * sample_rate)
        self._rate = sample_rate
        self._speech = [(self._frames(start), self._frames(end)) for start, end in speech]

    async def run(self, until: float) -> None:
        """Push the frames before `until` seconds."""
        began_at = anyio.current_time()
        silent = AudioFrame.silence(FRAME_SECONDS, self._rate)
        loud = tone(self._samples, self._rate)
        for number in range(self._frames(until)):
            await anyio.sleep_until(began_at + (number + 1) * self._samples / self._rate)
            self._push(loud if any(start <= number < end for start, end in self._speech) else silent)

    def _frames(self, seconds: float) -> int:
        return round(seconds * self._rate / self._samples)
