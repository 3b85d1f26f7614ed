"""Line: the simulated caller's hearing and speech, frame by frame, on one clock of received samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTStream
from vivavoce.pipelines.vad.base import (
    VADEvent,
    VADSpeechEnded,
    VADSpeechStarted,
    VADStream,
    VADVoicePaused,
    VADVoiceResumed,
)

SAMPLE_RATE = 16000
FRAME_SAMPLES = round(SAMPLE_RATE * FRAME_SECONDS)
_SILENCE = bytes(FRAME_SAMPLES * BYTES_PER_SAMPLE)


@dataclass(frozen=True, slots=True)
class Say:
    """Speak this line now."""

    line: str
    is_barge_in: bool = False
    is_repeat: bool = False
    keys: str = ""
    """Keys of a telephone that the line presses; its sound is their tones, which only the recording gets."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """End the call; `problem` is empty if it went as planned."""

    problem: str = ""


Decision = Say | HangUp
EndedBy = Literal["caller", "agent", "room", "limit"]
"""The side that hung up; the room, if the caller's connection to it was lost; or the call's limit."""


class Mind(Protocol):
    """Decides the caller's words; every position is a number of samples received since the call began."""

    def host_started(self, position: int) -> None:
        """The agent began to speak: an utterance that ends with one final transcript, if the caller has a
        recogniser.
        """

    def host_ended(self, position: int) -> None:
        """The agent fell silent."""

    def interim(self, text: str, position: int) -> None:
        """The present transcript of the utterance."""

    def final(self, text: str) -> None:
        """The final transcript of an utterance; empty if no words were understood."""

    def decide(self, position: int) -> Decision | None:
        """Return the next action; called once a frame while the caller is silent, or alone."""

    def said(self, say: Say, start: int, end: int) -> None:
        """A line is being spoken, from `start` to `end`."""

    def host_left(self, position: int, *, may_return: bool) -> None:
        """No agent is in the room any more; until one returns, this mind may only hang up.

        Args:
            may_return: Another agent may still take over; False if the room itself is closed.
        """

    def host_returned(self, position: int) -> None:
        """Another agent has taken over, or the same one came back."""


class Line:
    """For every 20 ms heard, decides and returns the 20 ms to send. Both go into the recording, side by side.

    Args:
        vad, stt: Streams of the caller's own ears; without `stt` it detects the agent's speech, but hears no words.
        voice: PCM of each line that the caller may say.
        report: Called with each event of the call.
    """

    def __init__(
        self,
        mind: Mind,
        vad: VADStream,
        stt: STTStream | None,
        voice: dict[str, bytes],
        report: Callable[[str, str], None],
    ) -> None:
        self._mind = mind
        self._vad = vad
        self._stt = stt
        self._voice = voice
        self._report = report
        self._unsaid: deque[bytes] = deque()
        self._unpressed: deque[str] = deque()
        """For each frame of a line of keys, the key that begins with it, or none."""
        self.pressed = ""
        """The key that begins with the frame returned last; empty for none."""
        self._received = bytearray()
        self._sent = bytearray()
        self.hung_up: HangUp | None = None
        self.left_at: int | None = None
        """Position at which the agent left; None while it is there."""
        self._is_lost = False

    @property
    def ended_by(self) -> EndedBy:
        """The side that ended the call."""
        if self.hung_up is None:
            return "limit"
        if self._is_lost:
            return "room"
        return "caller" if self.left_at is None else "agent"

    @property
    def position(self) -> int:
        """Samples heard so far."""
        return len(self._received) // BYTES_PER_SAMPLE

    def understood(self, event: STTEvent) -> None:
        """Take an event of the caller's recogniser."""
        if isinstance(event, STTFinal):
            self._mind.final(event.text)
            if event.text:
                self._report("heard", event.text)
        elif isinstance(event, STTInterim):
            self._mind.interim(event.text, self.position)

    def host_left(self, *, may_return: bool) -> None:
        """The agent has gone: its last words may still be recognised, and no line is begun."""
        self.left_at = self.position
        self._mind.host_left(self.position, may_return=may_return)

    def host_returned(self) -> None:
        """An agent is present again."""
        self.left_at = None
        self._mind.host_returned(self.position)

    def host_failed(self, problem: str) -> None:
        """The agent's code has failed: the call is over, by its side."""
        self.left_at = self.position if self.left_at is None else self.left_at
        self.hung_up = HangUp(problem)

    def lost(self, problem: str) -> None:
        """The room is lost, and no side hung up."""
        self._is_lost = True
        self.hung_up = HangUp(problem)

    def exchange(self, frame: AudioFrame) -> AudioFrame | None:
        """Take 20 ms of the host and return 20 ms of the caller; None for silence."""
        self._listen(frame)
        if self.hung_up is None and (not self._unsaid or self.left_at is not None):
            match self._mind.decide(self.position):
                case Say() as say:
                    self._begin(say)
                case HangUp() as hang_up:
                    self.hung_up = hang_up
        out = self._unsaid.popleft() if self._unsaid else _SILENCE
        is_silent = out is _SILENCE or bool(self._unpressed)
        self.pressed = self._unpressed.popleft() if self._unpressed else ""
        self._received += frame.data
        self._sent += out
        return None if is_silent else AudioFrame(out, SAMPLE_RATE)

    def recording(self) -> AudioFrame:
        """Return the call in stereo: caller left, host right."""
        from vivavoce.pipelines.core.native_threads import numpy as np

        both = np.stack([np.frombuffer(bytes(side), dtype=np.int16) for side in (self._sent, self._received)], axis=1)
        return AudioFrame(both.tobytes(), SAMPLE_RATE, num_channels=2)

    def _listen(self, frame: AudioFrame) -> None:
        events = self._vad.push(frame)
        if self._stt is not None:
            self._stt.push(frame)
        for event in events:
            if self._stt is not None:
                _tell(self._stt, event)
            if isinstance(event, VADSpeechStarted):
                self._mind.host_started(self.position)
            elif isinstance(event, VADSpeechEnded):
                self._mind.host_ended(self.position - round(event.ago * SAMPLE_RATE))

    def _begin(self, say: Say) -> None:
        pcm = self._voice[say.line]
        size = FRAME_SAMPLES * BYTES_PER_SAMPLE
        frames = [pcm[start : start + size].ljust(size, b"\0") for start in range(0, len(pcm), size)]
        self._unsaid.extend(frames)
        for key in say.keys:
            self._unpressed.extend([key, *[""] * (len(frames) // len(say.keys) - 1)])
        self._mind.said(say, self.position, self.position + len(frames) * FRAME_SAMPLES)
        self._report("barge_in" if say.is_barge_in else "says", say.line)


def _tell(stt: STTStream, event: VADEvent) -> None:
    match event:
        case VADSpeechStarted(ago):
            stt.speech_started(ago)
        case VADVoicePaused():
            stt.voice_paused()
        case VADVoiceResumed():
            stt.voice_resumed()
        case VADSpeechEnded():
            stt.flush()
