"""VoiceActivity: the stage of a VAD, across failures of its code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
"""The events that `VADStream.push()` may return."""


class VoiceActivity(Reopening[VADStream]):
    """Detects speech. A VAD that raises, or returns something unexpected, is opened again; after three failures in a
    row it is not used any more.

    Args:
        on_event: Called with each event of a frame.
        on_failure: As for Reopening.
    """

    def __init__(self, vad: VAD, clock: Clock, on_event: Callable[[VADEvent], None], on_failure: OnFailure) -> None:
        super().__init__(vad.open, vad.provider, clock=clock, on_failure=on_failure)
        self._on_event = on_event

    def push(self, frame: AudioFrame) -> None:
        """Have the VAD hear a frame; do nothing if it has been given up."""
        if self.stream is None:
            return
        try:
            events = self.stream.push(frame)
            if type(events) is not tuple and not isinstance(events, Sequence):  # the exact type first: it is fast
                problem = (
                    f"needed a sequence of events, also an empty one, got {type(events).__name__}; mend the plugin"
                )
                raise ProviderProtocolError(problem, provider=self.provider)
            for event in events:
                VAD_EVENTS.check(event, self.provider)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the VAD's code: the next frame gets a new stream
            self.failed(error)
            return
        for event in events:
            self._on_event(event)

    def reset(self) -> None:
        """Have the VAD forget the audio so far."""
        if self.stream is None:
            return
        try:
            self.stream.reset()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above; a new stream has heard nothing either
            self.failed(error)
