"""BudgetGuard: acts when a limit of the call's budget is near or reached: events, `degrade`, goodbye and close.

It works in one task of the session, on one decision after the other. At the limit of the cost it calls the functions
of `BudgetOptions.degrade` one by one until the cost is below the limit again (a function has raised it, for example)
and then, if it is not, ends the call: the answer that is at work is heard to its end, its tool calls included, then the
goodbye, and the session closes. A limit that is raised before the goodbye begins lets the call go on. At another limit
it calls the next function, and the limit is judged anew after five turns, or scores; the call never ends for it.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.budget.account import Decision
from vivavoce.agents.budget.amounts import Kind
from vivavoce.agents.budget.control import SOURCE
from vivavoce.agents.budget.meter import BudgetMeter
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import MAX_PRIORITY
from vivavoce.agents.extension.extension import Host
from vivavoce.agents.states import CloseReason
from vivavoce.pipelines.core.errors import VoiceError

logger = logging.getLogger(__name__)

Degrade = Callable[[Any], Awaitable[None] | object]
DEGRADE_LIMIT = 10.0
"""Seconds for one function of `degrade`, while the session speaks nothing."""
ANSWER_LIMIT = 60.0
"""Seconds that the present answer may still take; then it is cut."""
GOODBYE_LIMIT = 60.0
"""Seconds after that for the goodbye, while the caller may be speaking; then the session closes."""


class BudgetGuard:
    """Watches over the budget of one session.

    Args:
        degrade, goodbye: As in `BudgetOptions`.
        hangs_up: Whether it disconnects the caller at the end.
    """

    def __init__(
        self, host: Host, meter: BudgetMeter, *, degrade: Sequence[Degrade], goodbye: str, hangs_up: bool
    ) -> None:
        self._host = host
        self._context = host.context
        self._meter = meter
        self._goodbye = goodbye
        self.hangs_up = hangs_up
        self._left = deque(degrade)
        """The functions that have not been called yet."""

    def open(self) -> None:
        """Begin to act, in a task of the session."""
        self._context.group.start_soon(self._run, name=SOURCE)

    async def _run(self) -> None:
        closing, meter = self._context.closing, self._meter
        while not closing.is_asked:
            await meter.wait()
            for problem in meter.take_problems():
                self._context.report_error(problem, SOURCE, is_recovered=True)
            reached: dict[Kind, None] = {}
            for decision in meter.take():
                self._note(decision)
                if decision.level == "reached":
                    reached[decision.kind] = None
            for kind in reached:
                await self._degrade(kind)
            if meter.account.is_over:
                await self._end_call()

    def _note(self, decision: Decision) -> None:
        event = ev.BudgetWarning if decision.level == "near" else ev.BudgetExceeded
        self._context.log.note(event, kind=decision.kind, use=decision.use, allocation=decision.limit)

    async def _degrade(self, kind: Kind) -> None:
        account = self._meter.account
        while self._left and account.has_reached(kind) and not self._context.closing.is_asked:
            call = partial(_call, self._left.popleft(), self._context)
            run = self._context.hooks.start(
                "callback", "degrade of the budget", call, DEGRADE_LIMIT, "while quiet", source=SOURCE
            )
            await run.finish()
            if kind != "cost":
                account.judge_anew(kind)
                return

    async def _end_call(self) -> None:
        """Wait for the present answer, speak the goodbye and close; do nothing if the limit was raised meanwhile."""
        with anyio.move_on_after(ANSWER_LIMIT) as scope:
            await self._host.heard(self._host.speeches())
        closing = self._context.closing
        if closing.is_asked or not self._meter.account.is_over:
            return
        logger.info("The cost of the call is over its limit; the session closes")
        if scope.cancelled_caught:
            logger.warning("The answer did not end within %g s, and is cut", ANSWER_LIMIT)
            self._host.interrupt(force=True)
        with anyio.move_on_after(GOODBYE_LIMIT) as scope:
            await self._say_goodbye()
        if scope.cancelled_caught:
            logger.warning("The goodbye did not end within %g s; the session closes without it", GOODBYE_LIMIT)
        if self.hangs_up:
            self._host.hang_up(CloseReason.BUDGET_EXCEEDED)
            await closing.asked.wait()  # also where the hangup fails, within its limit
        else:
            closing.request(CloseReason.BUDGET_EXCEEDED)

    async def _say_goodbye(self) -> None:
        if not self._goodbye:
            return
        try:
            words = self._host.say(self._goodbye, interruptible=False, priority=MAX_PRIORITY)
        except VoiceError as error:  # it has no voice, or closes
            self._context.report_error(error, SOURCE)
            return
        await self._host.heard([words])


async def _call(degrade: Degrade, context: SessionContext) -> None:
    result = degrade(context.session)
    if inspect.iscoroutine(result):
        await result
