"""Watchdog: a limit that is fed often and checked seldom."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.pipelines.core.clock import Clock, TimerHandle


class Watchdog:
    """Calls `on_expired` if it is not fed within its limit.

    Feeding only stores the time, so that it may be done for every token; one timer checks the time now and then.

    Args:
        on_expired: Called once, synchronously; usually a cancel scope's `cancel`.
    """

    def __init__(self, clock: Clock, on_expired: Callable[[], None]) -> None:
        self._clock = clock
        self._on_expired = on_expired
        self._deadline: float | None = None
        self._timer: TimerHandle | None = None
        self._looks_at = 0.0
        self._holds = 0
        self._left: float | None = None
        """Seconds of the limit when it stood still, None without a limit."""
        self.has_expired = False

    def arm(self, seconds: float) -> None:
        """Expire in `seconds` from now, unless armed or disarmed before; while held, from when it is released."""
        if self._holds:
            self._left = seconds
            return
        self._deadline = self._clock.now() + seconds
        if self._timer is not None and self._deadline < self._looks_at:  # a shorter limit than before
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._look_at(self._deadline)

    def disarm(self) -> None:
        """Stop the limit; the timer checks once more and does nothing."""
        self._deadline = self._left = None

    def hold(self) -> None:
        """Let the limit stand still, until `release()` was called as often."""
        self._holds += 1
        if self._holds == 1 and self._deadline is not None:
            self._left, self._deadline = self._deadline - self._clock.now(), None

    def release(self) -> None:
        """Let the limit go on where it stood."""
        self._holds -= 1
        if not self._holds and self._left is not None:
            left, self._left = self._left, None
            self.arm(left)

    def close(self) -> None:
        """Drop the timer."""
        self._deadline = self._left = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._clock.now() >= self._deadline:
            self.has_expired = True
            self._on_expired()
        else:
            self._look_at(self._deadline)

    def _look_at(self, when: float) -> None:
        self._looks_at = when
        self._timer = self._clock.call_at(when, self._look)
