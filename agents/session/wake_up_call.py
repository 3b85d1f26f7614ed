"""WakeUpCall: runs the application's `on_wake_up` beside the conversation, one run at a time.

Its limit counts only while no speech is going on (`quiet_limit`). The close cuts it at once, unless it is what awaits
the close: there is nobody left to wake up.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.emitter import Run
from vivavoce.agents.core.quiet_limit import QuietLimit
from vivavoce.agents.telemetry.observer import NO_WATCH, Watch
from vivavoce.pipelines.core.checks import check_function
from vivavoce.pipelines.core.errors import SessionError, describe, located
from vivavoce.pipelines.core.owned_call import OwnedCall

logger = logging.getLogger(__name__)

NAME = "on_wake_up"

OnWakeUp = Callable[..., Any]
"""Takes nothing, or the level; returns nothing, or something to await."""


class WakeUpCall:
    """Makes the calls.

    Args:
        limit: Seconds for one of them while no speech is going on.
    """

    def __init__(self, context: SessionContext, *, limit: float) -> None:
        self.hang_up: Callable[[], None]
        """Disconnects a caller who has answered no level; set by the session's `HangUps`."""
        self._context = context
        self._limit = limit
        self._callback: OnWakeUp | None = None
        self._run: Run | None = None
        self._run_limit: QuietLimit | None = None
        self._is_over = False
        self._watch: Watch = NO_WATCH

    @property
    def callback(self) -> OnWakeUp | None:
        """What is called.

        Raises:
            ConfigurationError: Set to something that cannot be called.
        """
        return self._callback

    @callback.setter
    def callback(self, callback: OnWakeUp | None) -> None:
        check_function("on_wake_up", callback, or_none=True, remedy="for example an async method")
        self._callback = callback

    @property
    def is_running(self) -> bool:
        """Whether a call is at work, other than one that waits for the session's close."""
        return self._run is not None and not self._run.ended.is_set() and not self._run.awaits_close

    @property
    def is_running_here(self) -> bool:
        """Whether the calling code is part of a call that is at work."""
        return _running.get() is self and self.is_running

    def make(self, level: int) -> None:
        """Call it, if there is anything to call."""
        if self._callback is None or self._is_over:
            with self._context.observer.hook("wake_up", level=level):
                return
        if self._run is not None and not self._run.ended.is_set():
            logger.warning("on_wake_up is not called for level %d: its call for an earlier one still runs", level)
            return
        self._run_limit = QuietLimit(self._limit)
        self._run = self._context.log.emitter.start(NAME, partial(self._call, self._callback, level, self._run_limit))

    def agent_is(self, *, busy: bool) -> None:
        """Tell the call at work whether any speech is going on; to be told at every step while it `is_running`."""
        if self._run_limit is not None:
            self._run_limit.agent_is(busy=busy)

    def end(self) -> None:
        """The session closes: nothing is called any more, and a call that awaits the close may do so."""
        self._is_over = True
        if self._run_limit is not None:
            self._run_limit.lift()

    async def cut(self) -> None:
        """End the call that `is_running` and wait for its end; whoever closes bounds it."""
        assert self._run is not None
        self._run.scope.cancel()
        await self._run.ended.wait()

    async def _call(self, callback: OnWakeUp, level: int, limit: QuietLimit) -> None:
        async def call() -> None:
            _running.set(self)
            result = callback(level) if _takes_level(callback) else callback()
            if inspect.isawaitable(result):
                await result

        with self._context.observer.hook("wake_up", level=level) as self._watch:
            with limit.limiting() as scope:
                await OwnedCall(NAME, call, self._failed).run()
            if scope.cancelled_caught:
                self._failed(SessionError(f"on_wake_up did not end within {self._limit:g} s, speech apart"))

    def _failed(self, error: BaseException) -> None:
        self._watch.failed(error)
        logger.warning("on_wake_up raised %s", located(error))
        logger.debug("on_wake_up raised", exc_info=error)
        self._context.report_error(error if isinstance(error, Exception) else SessionError(describe(error)), NAME)


_running: ContextVar[WakeUpCall | None] = ContextVar("running_wake_up_call", default=None)
"""In a call of `on_wake_up` and what it starts, who makes it."""


def _takes_level(callback: OnWakeUp) -> bool:
    """Tell whether `callback` needs an argument; one with a default is its author's."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):  # some builtins do not tell
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
