"""WakeUpTimer: the application's control of the wake-up."""

from __future__ import annotations

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.turn import inputs as i


class WakeUpTimer:
    """`session.wake_up_timer`. Without a `wake_up` there is nothing to hold, and all of it does nothing."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context

    def pause(self) -> None:
        """Do not wake the caller up until `resume()`, such as while the caller looks for something."""
        self._post(i.WakeUpPaused())

    def resume(self) -> None:
        """Go on at the level where it was, with a full wait; fine when it is not paused."""
        self._post(i.WakeUpResumed())

    def reset(self) -> None:
        """Begin again with the first level; a pause stays."""
        self._post(i.WakeUpReset())

    def _post(self, event: i.TurnInput) -> None:
        self._context.check_open()
        self._context.inbox.post(event)
