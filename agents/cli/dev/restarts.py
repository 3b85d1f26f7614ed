"""Restarts: the pauses before an agent's process that died is started again. No I/O."""

from __future__ import annotations

FIRST_PAUSE = 1.0
"""Seconds."""
MAX_PAUSE = 30.0
STEADY_AFTER = 60.0
"""Seconds of running after which the end of a process counts as the first one again."""


class Restarts:
    """Pauses that double from crash to crash, so that a process that dies at once does not keep the machine busy."""

    def __init__(self) -> None:
        self._pause = 0.0

    def pause(self, *, ran: float) -> float:
        """Return the seconds to wait after a process that ran for `ran` seconds."""
        is_first = ran >= STEADY_AFTER or not self._pause
        self._pause = FIRST_PAUSE if is_first else min(2 * self._pause, MAX_PAUSE)
        return self._pause
