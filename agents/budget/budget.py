"""Budget: the budget of a call, as applications use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from vivavoce.agents.budget.account import Account
from vivavoce.agents.budget.amounts import NO_BUDGET, Allocation, limits_of, uses_of
from vivavoce.agents.budget.control import BudgetControl
from vivavoce.agents.budget.records import (
    ALLOCATION,
    KEPT_REPORTS,
    NAMESPACE,
    READ_AT_ONCE,
    REPORTS,
    USE,
    KeptAllocation,
    allocation_from,
    report_from,
)
from vivavoce.agents.core.values import decode, encode
from vivavoce.agents.memory.base import MemoryBase, attached_base
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.agents.records import UsageRecord
from vivavoce.pipelines.core.checks import check_flag
from vivavoce.pipelines.core.errors import ConfigurationError


class Budget:
    """Limits and use of a call. In the session's own process the session decides by them at once.

    In another process they are those in the store, to which the session writes after each change. The session takes a
    change that is made there within a second or so. After the call, changes of its own process go to the store too.

    Args:
        control: The session's side; None in another process.
    """

    def __init__(self, base: MemoryBase, control: BudgetControl | None) -> None:
        self._base = base
        self._control = control

    @classmethod
    @asynccontextmanager
    async def attach(
        cls,
        store: SessionStore,
        session_id: str,
        *,
        timeout: float = 2.0,  # noqa: ASYNC109 - the limit of each call
    ) -> AsyncIterator[Self]:
        """Share the budget of a session that another process runs, or that has ended, as `SessionMemory.attach()`.

        Args:
            timeout: Seconds for a call to the store; then it raises StoreUnavailable.
        Raises:
            StoreError: The store has no such session.
            ConfigurationError: An argument is of another kind.
        """
        yield cls(await attached_base(store, session_id, timeout), None)

    async def allocation(self) -> dict[str, float]:
        """Return the limits of cost, accuracy and latency; -1: no limit."""
        if self._control is not None:
            return self._control.meter.account.allocation.to_json()
        kept = await self._kept_allocation()
        return (Allocation() if kept is None else kept.limits).to_json()

    async def set_allocation(
        self,
        cost: float | None = None,
        accuracy: float | None = None,
        latency: float | None = None,
        nx: bool = False,
    ) -> bool:
        """Change limits; return whether one was changed.

        Args:
            cost, accuracy, latency: As in `BudgetOptions`; None leaves one as it is, -1 removes it.
            nx: Set only limits of kinds that have none yet.
        Raises:
            ValueError: An amount is none; `nx` is no bool.
            ConfigurationError: The session has no budget, or a component has no price.
            StoreError: The call has ended, and another session has its memory.
        """
        given = limits_of(cost, accuracy, latency)
        check_flag("nx", nx)
        if self._control is not None and not self._control.is_left_to_store:
            return self._control.allocate(given, nx=nx)
        await self._check_own()

        def change(text: str | None) -> tuple[str | None, bool]:
            if text is None:
                raise ConfigurationError(NO_BUDGET)
            kept = allocation_from(text)
            wanted = kept.limits.changed(given, nx=nx)
            if wanted == kept.limits:
                return text, False
            return KeptAllocation(wanted, kept.revision + 1).to_text(), True

        base = self._base
        was_changed = await base.within(base.store.change(base.place(NAMESPACE), ALLOCATION, change))
        if self._control is not None:
            self._control.allocate(given, nx=nx)
        return was_changed

    async def use(self) -> dict[str, float | None]:
        """Return the cost, the mean of the scores (`accuracy`), and the median `latency` of the last five turns.

        The latter two are None before there is a value.
        """
        return (await self._account()).use()

    async def usage(self) -> dict[str, UsageRecord]:
        """Return the usage of each model, by its name, `provider/model`; audio tokens are counted apart."""
        return (await self._account()).usage

    async def update_use(
        self, cost: float | None = None, accuracy: float | None = None, latency: float | None = None
    ) -> None:
        """Add to the use.

        Args:
            cost: Of something that the session does not count, such as a tool's own requests.
            accuracy: A score of an answer, 0 to 1.
            latency: Seconds that the caller has waited, as for one more turn.
        Raises:
            ValueError: An amount is none.
            ConfigurationError: The session has no budget.
            StoreError: The call has ended, and another session has its memory.
        """
        uses = uses_of(cost, accuracy, latency)
        control, base = self._control, self._base
        if control is not None and not control.is_left_to_store:
            control.report(uses)
            return
        await self._check_own()
        if await self._kept_allocation() is None:
            raise ConfigurationError(NO_BUDGET)
        await base.within(base.store.log(base.place(REPORTS), [encode(uses)], keep=KEPT_REPORTS))
        if control is not None:
            await control.take_reports()

    # --- in another process, and after the call

    async def _check_own(self) -> None:
        if self._control is not None:
            await self._control.check_own()

    async def _kept_allocation(self) -> KeptAllocation | None:
        text = await self._base.within(self._base.store.read(self._base.place(NAMESPACE), ALLOCATION))
        return None if text is None else allocation_from(text)

    async def _account(self) -> Account:
        if self._control is not None:
            await self._control.look_for_reports()
            return self._control.meter.account
        account = Account(Allocation(), warn_at=1.0, price_of=lambda name: None)
        base = self._base
        text = await base.within(base.store.read(base.place(NAMESPACE), USE))
        start = 0
        if text is not None:
            kept = decode(text)
            account.restore(kept)
            start = int(kept["reports"])
        while found := await base.within(base.store.records(base.place(REPORTS), start, READ_AT_ONCE)):
            for record in found:
                start = record.index + 1
                account.report(report_from(record.text))
        return account
