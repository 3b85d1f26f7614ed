"""GuardedVAD: one session's voice activity detection across failures of its code."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.pipelines.core.boundary import Expected
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.core.reopening import OnFailure, Reopening
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.vad.base import (
    VAD,
    VADEvent,
    VADSpeechEnded,
    VADSpeechStarted,
    VADStream,
    VADVoicePaused,
    VADVoiceResumed,
)

VAD_EVENTS = Expected(VADSpeechStarted, VADSpeechEnded, VADVoicePaused, VADVoiceResumed, ago=(int, float))
"""What `VADStream.push()` may return."""


class GuardedVAD(Reopening[VADStream]):
    """A VAD that raises, or returns something unexpected, is opened anew; after three failures in a row it is given up.

    Args:
        on_failure: As for Reopening.
    """

    def __init__(self, vad: VAD, *, clock: Clock, on_failure: OnFailure) -> None:
        super().__init__(vad.open, vad.provider, clock=clock, on_failure=on_failure)

    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        """Take a frame and return what became known by it; nothing once the VAD is given up."""
        if self.stream is None:
            return ()
        try:
            events = self.stream.push(frame)
            if not isinstance(events, Sequence):
                problem = (
                    f"needed a sequence of events, also an empty one, got {type(events).__name__}; mend the plugin"
                )
                raise ProviderProtocolError(problem, provider=self.provider)
            for event in events:
                VAD_EVENTS.check(event, self.provider)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the VAD's code: the next frame gets a new stream
            self.failed(error)
            return ()
        return events

    def reset(self) -> None:
        """Forget the audio so far."""
        if self.stream is None:
            return
        try:
            self.stream.reset()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above; a new stream has heard nothing either
            self.failed(error)
