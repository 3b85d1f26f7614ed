"""WakeUpTimer: what the application does to the wake-up."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.turn import inputs as i


class WakeUpTimer:
    """`session.wake_up_timer`. Without a `wake_up` there is nothing to hold, and all of it does nothing.

    Args:
        post: Enqueues an input; raises when the session is not open.
    """

    def __init__(self, post: Callable[[i.TurnInput], None]) -> None:
        self._post = post

    def pause(self) -> None:
        """Wake nobody up until `resume()`, such as while the caller looks for something."""
        self._post(i.WakeUpPaused())

    def resume(self) -> None:
        """Go on at the level where it was, with a full wait; fine when it is not paused."""
        self._post(i.WakeUpResumed())

    def reset(self) -> None:
        """Begin anew with the first level; a pause stays."""
        self._post(i.WakeUpReset())
