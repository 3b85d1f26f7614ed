"""KeptAudio: the caller's audio that the next connection must hear."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import RealtimeConnection


class KeptAudio:
    """The open turn's audio, and the last turn's until its words are known.

    Args:
        seconds: Of the open turn; more drops its oldest.
        on_lost: Called for each frame that was dropped before a connection had heard it.
    """

    def __init__(self, seconds: float, on_lost: Callable[[], None]) -> None:
        self._open = RecentFrames(seconds)
        self._limit = seconds
        self._on_lost = on_lost
        self._unheard = 0.0
        """Seconds of the open turn that came without a connection."""
        self._turn: list[AudioFrame] = []
        self._is_turn_unheard = False

    @property
    def has_turn(self) -> bool:
        """Whether there is a turn with unknown words."""
        return bool(self._turn)

    def push(self, frame: AudioFrame, *, is_heard: bool) -> None:
        """Take the open turn's next frame; `is_heard`: a connection hears it too."""
        self._open.push(frame)
        self._unheard = 0.0 if is_heard else self._unheard + frame.duration
        if self._unheard > self._limit + frame.duration / 2:
            self._on_lost()

    def commit(self, *, is_heard: bool) -> None:
        """The turn is over; `is_heard`: a connection was informed of it."""
        self._turn, self._is_turn_unheard, self._unheard = self._open.drain(), not is_heard, 0.0

    def clear(self) -> None:
        """Forget the open turn."""
        self._open.drain()
        self._unheard = 0.0

    def settle(self) -> None:
        """The words of the turn are known."""
        self._turn = []

    def take(self) -> list[AudioFrame]:
        """Return and forget all audio: no connection will hear it any more."""
        frames, self._turn, self._unheard = [*self._turn, *self._open.drain()], [], 0.0
        return frames

    def send_to(self, connection: RealtimeConnection, *, also_heard: bool) -> bool:
        """Send the audio to a new connection: the turn as an item, then the open turn.

        Args:
            also_heard: Also a turn that a connection before it has heard.
        Returns:
            Whether the turn was committed.
        """
        is_committed = False
        if self._turn and (self._is_turn_unheard or also_heard):
            self._is_turn_unheard = False
            for frame in self._turn:
                connection.push(frame)
            connection.commit()
            is_committed = True
        for frame in self._open.drain():
            self._open.push(frame)  # the next connection may be lost too
            connection.push(frame)
        return is_committed
