"""Hold: puts the caller of a session on hold, and takes them back."""

from __future__ import annotations

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.events import HoldChanged
from vivavoce.agents.states import HoldState
from vivavoce.agents.turn.inputs import CallerHeld, TurnClearRequested
from vivavoce.pipelines.core.errors import SessionError


class Hold:
    """The hold of one session."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context

    @property
    def state(self) -> HoldState:
        """With whom the caller talks."""
        return self._context.hold.state

    def ask(self, state: HoldState) -> None:
        """Change to that state for the application, from any thread.

        Raises:
            SessionNotStartedError, SessionClosedError: There is no caller now.
            SessionError: The caller talks with the person of a warm transfer.
        """
        self._context.check_open()
        if self.state == "connected":
            raise SessionError("the caller talks with a person, and the agent is out of the call; hang up, or wait")
        self._context.inbox.on_loop(lambda: self.change(state))

    def change(self, state: HoldState) -> None:
        """Go to that state; nothing happens if it is the present one."""
        hold, inbox = self._context.hold, self._context.inbox
        if state == hold.state:
            return
        if hold.is_deaf != (state != "talking"):
            inbox.post(CallerHeld(state != "talking"))
            inbox.post(TurnClearRequested())
        hold.change(state)
        self._context.log.note(HoldChanged, state=state)
