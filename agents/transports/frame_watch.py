"""FrameWatch: passes the caller's frames on, and reports when they stop without a word of the caller's client."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.media.frame import AudioFrame

STOPPED_AFTER = 1.0
"""Seconds without a frame after which the frames have stopped."""
LATE = 0.1
"""Seconds by which a timer is late if the loop was blocked: it has read no frames meanwhile."""


class FrameWatch:
    """Watches the frames of one caller. One timer, which the frames do not touch.

    Args:
        on_frame: Called with each frame.
        on_stopped: Called once when no frame has come for `STOPPED_AFTER`, or at `stop()`; the next frame begins anew.
    """

    def __init__(self, clock: Clock, on_frame: Callable[[AudioFrame], None], on_stopped: Callable[[], None]) -> None:
        self._clock = clock
        self._on_frame = on_frame
        self._on_stopped = on_stopped
        self._heard_at: float | None = None
        """When the newest frame came; None while none come."""
        self._due = 0.0
        self._timer: TimerHandle | None = None

    def frame(self, frame: AudioFrame) -> None:
        """Take a frame."""
        self._heard_at = now = self._clock.now()
        if self._timer is None:
            self._arm(now)
        self._on_frame(frame)

    def stop(self) -> None:
        """No more frames come for now: report it, if any have come since the last report."""
        has_frames = self._heard_at is not None
        self.close()
        if has_frames:
            self._on_stopped()

    def close(self) -> None:
        """Forget the frames that have come, and report nothing of them."""
        timer, self._timer, self._heard_at = self._timer, None, None
        if timer is not None:
            timer.cancel()

    def _arm(self, since: float) -> None:
        self._due = since + STOPPED_AFTER
        self._timer = self._clock.call_at(self._due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now, heard_at = self._clock.now(), self._heard_at
        assert heard_at is not None
        if now - self._due > LATE:
            self._arm(now)
        elif heard_at + STOPPED_AFTER > now:
            self._arm(heard_at)
        else:
            self.stop()
