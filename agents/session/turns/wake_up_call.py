"""WakeUpCall: calls the application's `on_wake_up` beside the conversation, one call at a time; WakeUpTimer.

The limit of a call counts while the session speaks nothing. The close cuts it at once, unless it awaits the close
(`core.hooks`): a caller who is leaving needs no wake-up.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Run
from vivavoce.agents.events import WakeUpFired
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import WakeUp, wake_up_of
from vivavoce.pipelines.core.checks import check_function

logger = logging.getLogger(__name__)

NAME = "on_wake_up"

OnWakeUp = Callable[..., Any]
"""Takes no argument, or the level. Its result is awaited if it can be."""


class WakeUpCall:
    """Makes the calls.

    Args:
        wake_up: How a silent caller is woken up at first.
        limit: Seconds for one call while the session speaks nothing.
    """

    def __init__(self, context: SessionContext, wake_up: WakeUp | None, *, limit: float) -> None:
        self._context = context
        self._limit = limit
        self.wake_up = wake_up
        """How a silent caller is woken up; None: not at all."""
        self.callback: OnWakeUp | None = None
        """The function that is called, if there is one."""
        self._run: Run | None = None
        self._has_warned = False

    def set_wake_up(self, given: float | WakeUp | None) -> None:
        """Wake a silent caller up in that way, from now on; raises as `AgentSession.wake_up`."""
        wanted = wake_up_of(given)
        self._context.check_not_closed()
        transport = self._context.live.transport
        if transport is not None and wanted is not None and wanted.then == "hangup":
            transport.check_hangup()
        self.wake_up = wanted
        self._context.inbox.post(i.WakeUpChanged(wanted))

    def set_callback(self, callback: OnWakeUp | None) -> None:
        """Call that one from now on; None calls nothing.

        Raises:
            ConfigurationError: It cannot be called.
        """
        check_function("on_wake_up", callback, or_none=True, remedy="for example an async method")
        self.callback = callback

    @property
    def is_running(self) -> bool:
        """Whether a call runs that does not await the session's close."""
        return self._run is not None and not self._run.is_over and not self._run.is_awaiting_close

    @property
    def is_running_here(self) -> bool:
        """Whether the calling code is part of such a call."""
        return self.is_running and self._context.hooks.here("wake-up") is not None

    def make(self, level: int) -> None:
        """Call it, if the application has set one and the session does not close."""
        if self.callback is None or self._context.closing.is_asked:
            with self._context.observer.hook("wake_up", level=level):
                self._warn_if_unhandled()
                return
        if self._run is not None and not self._run.is_over:
            logger.warning("on_wake_up is not called for level %d: its call for an earlier one still runs", level)
            return
        call, watch = partial(_call, self.callback, level), self._context.observer.hook("wake_up", level=level)
        self._run = self._context.hooks.start(
            "wake-up", NAME, call, self._limit, "while quiet", source=NAME, watch=watch
        )

    def _warn_if_unhandled(self) -> None:
        """Warn, once, of a wake-up that reaches no code. One level that only ends the call needs none."""
        wake_up = self.wake_up
        only_ends = wake_up is not None and wake_up.repeat == 1 and wake_up.then is not None
        is_handled = self.callback is not None or self._context.log.emitter.is_listened_to(WakeUpFired.name)
        if not (self._has_warned or only_ends or is_handled or self._context.closing.is_asked):
            self._has_warned = True
            logger.warning(
                "The caller is silent and is not woken up: session.on_wake_up is None, and the event 'wake_up' has no "
                "handler; set one before session.start(), not in on_enter, which a resumed call does not run again"
            )

    async def cut(self) -> None:
        """Cut the call that `is_running` and wait for its end; the caller limits the wait."""
        assert self._run is not None
        self._run.cut()
        await self._run.wait()


class WakeUpTimer:
    """`session.wake_up_timer`. Without a `wake_up` there is nothing to hold, and all of it does nothing."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context

    def pause(self) -> None:
        """Do not wake the caller up until `resume()`, such as while the caller looks for something."""
        self._context.post(i.WakeUpPaused())

    def resume(self) -> None:
        """Go on at the level where it was, with a full wait; fine when it is not paused."""
        self._context.post(i.WakeUpResumed())

    def reset(self) -> None:
        """Begin again with the first level; a pause stays."""
        self._context.post(i.WakeUpReset())


async def _call(callback: OnWakeUp, level: int) -> None:
    result = callback(level) if _takes_level(callback) else callback()
    if inspect.isawaitable(result):
        await result


def _takes_level(callback: OnWakeUp) -> bool:
    """Return whether `callback` needs an argument; one with a default is its author's."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
