"""KeptAudio: passes the caller's audio on (`live.hear`), and keeps audio for the connection that serves next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from vivavoce.agents.core.context import Live
from vivavoce.pipelines.events import UserSpeechEnded, UserSpeechStarted, UserVoicePaused, UserVoiceResumed
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import ONSET_SECONDS, PipelineConnection, PipelineEvent

LOST_SECONDS = 10.0
"""Seconds of audio that are kept for the pipeline that takes the place of a lost one."""
_TIMED = (UserSpeechStarted, UserSpeechEnded, UserVoicePaused, UserVoiceResumed)


class KeptAudio:
    """Gives each frame of the caller to the connection in use, to the buffer for the next one, or to both."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._behind = 0.0
        """Seconds of kept audio that follow the frame given to the new connection."""
        self._kept: RecentFrames | None = None

    def hear_with(self, connection: PipelineConnection) -> None:
        """Give the frames from here on to `connection`."""
        self._live.hear = connection.push_audio

    def keep_onset(self) -> None:
        """Keep the last half second of the caller's audio, for a connection that is being opened."""
        if self._kept is None:
            self._kept = kept = RecentFrames(ONSET_SECONDS)
            self._live.hear = partial(_both, kept.push, self._live.connection.push_audio)

    def forget_until(self, ago: float) -> None:
        """Forget an utterance that ended `ago` seconds before now: the connection in use has heard all of it."""
        if self._kept is not None:
            self._kept.forget_until(ago)

    def forget(self) -> None:
        """Drop the kept audio and keep no more, since the connection that was to get it is given up."""
        if self._kept is not None:
            self._kept = None
            self._live.hear = self._live.connection.push_audio

    def keep_unheard(self, unheard: Iterable[AudioFrame]) -> None:
        """Keep the audio from these frames on for the next connection: no connection hears the caller any more."""
        before = [] if self._kept is None else self._kept.drain()
        self._kept = kept = RecentFrames(LOST_SECONDS)
        self._live.hear = kept.push
        for frame in [*unheard, *before]:
            kept.push(frame)

    def play_to(self, connection: PipelineConnection) -> None:
        """Give the kept frames to that connection, and keep none."""
        kept, self._kept = self._kept, None
        frames = [] if kept is None else kept.drain()
        self._behind = sum(frame.duration for frame in frames)
        for frame in frames:
            self._behind -= frame.duration
            connection.push_audio(frame)
        self._behind = 0.0

    def timed(self, event: PipelineEvent) -> PipelineEvent:
        """Return the event of the connection in use, with the time at which its audio came."""
        behind = self._behind + self._live.late
        return replace(event, at=event.at - behind) if isinstance(event, _TIMED) else event


def _both(first: Callable[[AudioFrame], None], then: Callable[[AudioFrame], None], frame: AudioFrame) -> None:
    first(frame)
    then(frame)
