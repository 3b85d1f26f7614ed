"""AvatarOrOwnSink: plays each speech through the avatar, or through the agent's own track while there is no avatar."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.transports.livekit.avatar_sink import AvatarSink
from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import AudioFrame


class AvatarOrOwnSink(AudioSink):
    """Changes between the two when neither holds speech; if the avatar is lost, the own track plays on at once.

    Args:
        is_ready: Returns whether the avatar plays audio that is sent to it.
    """

    def __init__(self, avatar: AvatarSink, own: AudioSink, is_ready: Callable[[], bool]) -> None:
        self._avatar = avatar
        self._own = own
        self._is_ready = is_ready
        self._current: AudioSink = own

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._avatar.capabilities

    def write(self, frame: AudioFrame) -> None:
        if self._current is self._avatar:
            if self._avatar.is_idle and not self._is_ready():
                self._current = self._own
        elif self._is_ready() and not self._own.queued():
            self._current = self._avatar
        self._current.write(frame)

    def queued(self) -> int:
        return self._current.queued()

    def clear(self) -> int:
        return self._current.clear()

    def flush(self) -> None:
        self._current.flush()

    def when_playing(self, callback: Callable[[], None]) -> None:
        self._current.when_playing(callback)

    def when_cleared(self, callback: Callable[[int], None]) -> None:
        self._current.when_cleared(callback)

    def avatar_lost(self) -> None:
        """Play the audio that the avatar has not played."""
        frames = self._avatar.abandon()
        self._current = self._own
        for frame in frames:
            self._own.write(frame)
