"""SessionWaking: the session's properties that say when and how a silent caller is woken up."""

from __future__ import annotations

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.session.checks import wake_up_of
from vivavoce.agents.session.lifecycle.task import SessionLifecycle
from vivavoce.agents.session.runtime import SessionRuntime
from vivavoce.agents.session.wake_up_call import OnWakeUp
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import WakeUp


class SessionWaking:
    """Properties of an `AgentSession`, which makes the parts they use."""

    _context: SessionContext
    _lifecycle: SessionLifecycle
    _runtime: SessionRuntime
    _wake_up: WakeUp | None

    @property
    def on_wake_up(self) -> OnWakeUp | None:
        """Called when a silent caller is to be woken up, with the level if it takes an argument; sync or async.

        It runs beside the conversation and may speak and close. Set it at any time; None calls nothing.
        """
        return self._runtime.wake_up_call.callback

    @on_wake_up.setter
    def on_wake_up(self, callback: OnWakeUp | None) -> None:
        self._runtime.wake_up_call.callback = callback

    @property
    def wake_up(self) -> WakeUp | None:
        """How a silent caller is woken up; None: not at all. Set it at any time, as a number of seconds or a `WakeUp`.

        A new one counts from when it is set, and begins with its first level.

        Raises:
            ConfigurationError: Set to something else, or to a hangup of which the session's transport is not capable.
            SessionClosedError: Set after the close.
        """
        return self._wake_up

    @wake_up.setter
    def wake_up(self, wake_up: float | WakeUp | None) -> None:
        wanted = wake_up_of(wake_up)
        context = self._context
        if context.inbox.is_bound or context.closing.is_over:
            context.check_open()
        if wanted is not None and wanted.then == "hangup":
            self._lifecycle.check_hangup()
        self._wake_up = wanted
        context.inbox.post(i.WakeUpChanged(wanted))
