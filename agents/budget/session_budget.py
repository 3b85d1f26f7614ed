"""SessionBudget: the budget of one session, as it hangs at the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from vivavoce.agents.agent import Agent
from vivavoce.agents.budget.amounts import NO_LIMIT
from vivavoce.agents.budget.budget import Budget
from vivavoce.agents.budget.control import BudgetControl
from vivavoce.agents.budget.guard import BudgetGuard
from vivavoce.agents.budget.meter import BudgetMeter
from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.memory.control import MemoryControl
from vivavoce.agents.memory.options import MemoryOptions
from vivavoce.agents.records import BudgetRecord, TurnRecord
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.pipeline import Pipeline


class SessionBudget(Attached):
    """The account of a session, the place where it is kept, and the guard that acts on its decisions."""

    def __init__(self, host: Host, meter: BudgetMeter, guard: BudgetGuard) -> None:
        memory = host.attached(MemoryOptions)
        assert isinstance(memory, MemoryControl), "each session has a memory"
        self._meter = meter
        self._guard = guard
        self._control = BudgetControl(host.context, memory, meter)
        self.face = Budget(memory.base, self._control)
        host.context.log.reports_budget(self._record)

    def check(self, agent: Agent, pipeline: Pipeline) -> None:
        """Refuse components without a price, if the cost has a limit.

        Raises:
            ConfigurationError: There are some.
        """
        self._meter.check(pipeline)

    def open(self) -> Awaitable[None] | None:
        """Begin, or go on with the budget of a snapshot."""
        return self._control.open()

    def link(self, transport: Transport) -> None:
        """Begin to act on decisions.

        Raises:
            ConfigurationError: The budget may hang up, and the transport cannot.
        """
        if self._guard.hangs_up:
            transport.check_hangup()
        self._guard.open()

    def turn_over(self, record: TurnRecord) -> None:
        """Take the latency of a turn that was answered audibly."""
        if record.e2e_latency is not None:
            self._meter.answered(record.e2e_latency)

    def take(self) -> Callable[[], dict[str, Any]] | None:
        """Take limits and use for a snapshot, once the budget has begun."""
        if not self._control.is_open:
            return None
        state = self._control.state()
        return lambda: state

    def check_taken(self, data: Any) -> None:
        """Check that `restore` can take that data.

        Raises:
            ConfigurationError: It is no budget.
        """
        self._control.check_taken(data)

    def restore(self, data: Any) -> None:
        """Go on with the budget of a snapshot, from `open()` on."""
        self._control.resume(data)

    def _record(self) -> BudgetRecord:
        account = self._meter.account
        limit = account.allocation.cost
        return BudgetRecord(cost=account.cost, cost_limit=None if limit == NO_LIMIT else limit)
