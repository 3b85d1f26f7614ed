"""BudgetControl: keeps a session's budget in its store, and takes the changes that other processes make there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from vivavoce.agents.budget.account import Account
from vivavoce.agents.budget.amounts import Allocation, Kind, allocation_of
from vivavoce.agents.budget.meter import BudgetMeter
from vivavoce.agents.budget.records import (
    ALLOCATION,
    NAMESPACE,
    READ_AT_ONCE,
    REPORTS,
    USE,
    KeptAllocation,
    allocation_from,
    report_from,
)
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.values import decode, encode
from vivavoce.agents.memory.control import MemoryControl
from vivavoce.agents.memory.writer import MemoryWriter
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError, StoreUnavailable, describe
from vivavoce.pipelines.core.ids import new_id

SOURCE = "budget"
"""The source of `error` events."""
LOOK_INTERVAL = 1.0
"""Seconds between two looks for changes of other processes; a change takes effect within that time and one call."""


class _Newest:
    """Writes the newest state of something. At most one such write waits, however often the state changes."""

    def __init__(self, writer: MemoryWriter, write: Callable[[], Awaitable[None]]) -> None:
        self._writer = writer
        self._write = write
        self.is_due = False
        """Whether the store lacks the newest state."""

    def put(self) -> None:
        """Write the state soon, since it has changed."""
        self.is_due = True
        self.put_again()

    def put_again(self) -> None:
        """Put the write into the queue once more, if the queue has lost it in a long outage."""
        if self.is_due and not self._writer.has(self._make):
            self._writer.put(self._make)

    async def _make(self) -> None:
        while self.is_due:  # again, if the state has changed meanwhile
            self.is_due = False
            try:
                await self._write()
            except BaseException:
                self.is_due = True
                raise


class BudgetControl:
    """The session's side of its budget. It does not use a store that only this process has."""

    def __init__(self, context: SessionContext, memory: MemoryControl, meter: BudgetMeter) -> None:
        self._context = context
        self._memory = memory
        self._base = memory.base
        self._writer = memory.writer
        self._health = memory.health
        self.meter = meter
        self._revision = 0
        self._writer_id = new_id("budget")
        self._has_written = False
        """Whether the use in the store is this session's, unless a later session continues this one."""
        self._reports = 0
        """Index of the next report to take."""
        self._kept_use = _Newest(memory.writer, self._write_use)
        self._kept_allocation = _Newest(memory.writer, self._write_allocation)
        self._has_set_limits = False
        """Whether code of this process has set limits."""
        self._own_limits: dict[Kind, float] = {}
        """The limits set in this process that the store does not have yet."""
        self._has_kept_limits = False
        """Whether the limits in the store are this session's, but for changes of other processes."""
        self.is_open = False
        """Whether the budget has begun."""
        self._is_kept = False
        """Whether each change is written to the store."""
        self._resumed: Mapping[str, Any] | None = None
        """The budget of a snapshot that is to be continued."""
        self._has_read = False
        """Whether the budget that the store had before this session was taken, or none is to be taken."""

    # --- life

    def open(self) -> Awaitable[None] | None:
        """Begin, or go on with the budget of a snapshot."""
        self.is_open = True
        if self._resumed is not None:
            limits, self._revision = _allocation_of(self._resumed)
            self._allocate_or_report(limits.changed(self._own_limits))
            self._restore_use(self._resumed["use"])
        return self._open_in_store() if self._memory.is_shared else None

    async def _open_in_store(self) -> None:
        """Begin in a shared store, and look for changes of other processes there.

        A session that is resumed goes on with the budget of the store, or of the snapshot if that is newer; if the
        store is down, it does so as soon as the store is back. Another session begins anew, even under the id of a
        session that has ended.
        """
        try:
            if not self._health.is_failing:
                await self._read_first()
                await self.take_reports()
                await self._base.within(self._write_allocation())  # by it other processes see that there is a budget
        except Exception as error:  # noqa: BLE001 - a store is foreign code; the call goes on without it
            self._health.failed(error)
        self._is_kept = True
        self.meter.open(self._save)
        self._memory.on_begin_again(self._save_all)
        self._save_all()
        self._context.group.start_soon(self._look, name="budget of the memory")

    def _save_all(self) -> None:
        """Write limits and use: at the beginning, and again to a store that may have lost them."""
        self._save_allocation()
        self._save()

    @property
    def is_left_to_store(self) -> bool:
        """Whether the budget now changes in the store: the session has ended, and another session may have its
        memory."""
        return self._memory.is_shared and self._writer.is_over

    async def check_own(self) -> None:
        """Check that the budget in the store is still that of this session, which has ended.

        Raises:
            StoreError: Another session has the memory.
        """
        base = self._base
        text = await base.within(base.store.read(base.place(NAMESPACE), USE))
        if base.is_lost or (text is not None and decode(text)["writer"] != self._writer_id):
            raise StoreError(f"another session has the memory {base.id!r} now; the budget of this one is closed")

    def state(self) -> dict[str, Any]:
        """Return limits and use as plain data, for a snapshot."""
        account = self.meter.account
        return {"allocation": account.allocation.to_json(), "revision": self._revision, "use": self._use()}

    def check_taken(self, data: Any) -> None:
        """Check that `resume()` can take that data.

        Raises:
            ConfigurationError: It is none of `state()`.
        """
        try:
            _allocation_of(data)
            int(data["use"]["reports"])
            Account(Allocation(), warn_at=1.0, price_of=lambda name: None).restore(data["use"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the budget of a snapshot must be what snapshot() returned, got a part that is none: {describe(error)}"
            ) from error

    def resume(self, data: Mapping[str, Any]) -> None:
        """Go on with the state of an earlier session, from `open()` on."""
        self._resumed = data

    # --- changes of this process

    def allocate(self, given: Mapping[Kind, float], *, nx: bool) -> bool:
        """Change the limits at once; return whether one was changed.

        Raises:
            ConfigurationError: A component has no price.
        """
        before = self.meter.account.allocation
        wanted = before.changed(given, nx=nx)
        self._allocate(wanted)
        if wanted != before:
            self._has_set_limits = True
            limits, earlier = wanted.to_json(), before.to_json()
            self._own_limits.update({kind: limits[kind] for kind in given if limits[kind] != earlier[kind]})
            self._save_allocation()
        return wanted != before

    def report(self, uses: Mapping[Kind, float]) -> None:
        """Add amounts to the use at once."""
        self.meter.report(uses)

    # --- to the store

    def _use(self) -> dict[str, Any]:
        return {**self.meter.account.to_json(), "reports": self._reports, "writer": self._writer_id}

    def _save(self) -> None:
        if self._is_kept and not self._writer.is_over:
            self._kept_use.put()

    async def _write_use(self) -> None:
        await self._read_first()

        def change(before: str | None) -> tuple[str | None, None]:
            writer = None if before is None else decode(before).get("writer")
            is_taken = self._has_written and writer not in (None, self._writer_id)
            return before if is_taken else encode(self._use()), None

        await self._base.store.change(self._base.place(NAMESPACE), USE, change)
        self._has_written = True

    def _save_allocation(self) -> None:
        if self._is_kept and not self._writer.is_over:
            self._kept_allocation.put()

    async def _write_allocation(self) -> None:
        """Write the limits set in this process; limits that another process has set meanwhile stay."""
        await self._read_first()
        own: dict[Kind, float] = {}

        def change(before: str | None) -> tuple[str | None, KeptAllocation]:
            kept = KeptAllocation(self.meter.account.allocation, 0) if before is None else allocation_from(before)
            is_kept = before is not None and self._memory.is_resumed and not self._has_set_limits
            if is_kept and kept.revision >= self._revision:
                return before, kept
            own.clear()
            own.update(self._own_limits)
            is_theirs = self._has_kept_limits and kept.revision > self._revision
            limits = kept.limits.changed(own) if is_theirs else self.meter.account.allocation
            written = KeptAllocation(limits, max(kept.revision, self._revision) + 1)
            return written.to_text(), written

        if not self._base.is_lost:
            written = await self._base.store.change(self._base.place(NAMESPACE), ALLOCATION, change)
            self._own_limits = {kind: limit for kind, limit in self._own_limits.items() if own.get(kind) != limit}
            self._take_allocation(written)
            self._has_kept_limits = True

    # --- from the store

    async def _read_first(self) -> None:
        """Take the budget of the sessions that this one continues, once; a new call takes none."""
        if self._has_read:
            return
        base, place = self._base, self._base.place(NAMESPACE)
        if not self._memory.is_resumed:
            state = await base.within(base.store.log_state(base.place(REPORTS)))
            self._reports, self._has_read = state.next_index, True
            return
        limits = await base.within(base.store.read(place, ALLOCATION))
        use = await base.within(base.store.read(place, USE))
        self._has_read = True
        if limits is not None and not self._has_set_limits:
            self._take_allocation(allocation_from(limits))
        if use is not None and (kept := decode(use))["changes"] > self.meter.account.earlier_changes:
            self._restore_use(kept)

    def _restore_use(self, kept: Mapping[str, Any]) -> None:
        self._reports = int(kept["reports"])
        self.meter.restore(kept)

    async def _look(self) -> None:
        base = self._base
        while not self._context.closing.is_asked:
            await anyio.sleep(LOOK_INTERVAL)
            try:
                text = await base.within(base.store.read(base.place(NAMESPACE), ALLOCATION))
                if text is not None and not self._kept_allocation.is_due:
                    self._take_allocation(allocation_from(text))
                if self._has_read:  # until then, the use in the store may hold these reports
                    await self.take_reports()
            except Exception as error:  # noqa: BLE001 - a store is foreign code; the call goes on without it
                self._health.failed(error)
                continue
            self._health.worked()
            for kept in (self._kept_use, self._kept_allocation):
                kept.put_again()

    def _take_allocation(self, kept: KeptAllocation) -> None:
        if kept.revision > self._revision:
            self._revision = kept.revision
            self._allocate_or_report(kept.limits.changed(self._own_limits))

    def _allocate_or_report(self, allocation: Allocation) -> None:
        if allocation == self.meter.account.allocation:
            return
        try:
            self._allocate(allocation)
        except ConfigurationError as error:  # set where the components are not known
            self._context.report_error(error, SOURCE)

    def _allocate(self, allocation: Allocation) -> None:
        self.meter.check_allocation(allocation)
        self.meter.allocate(allocation)

    async def look_for_reports(self) -> None:
        """Take the reports of other processes now, if the store answers."""
        if not (self._is_kept and self._has_read) or self.is_left_to_store or self._health.is_failing:
            return
        try:
            await self.take_reports()
        except StoreUnavailable as error:
            self._health.failed(error)

    async def take_reports(self) -> None:
        """Add the amounts in the store's reports: those of other processes, and those of this one after the end."""
        base = self._base
        if self._reports and (await base.within(base.store.log_state(base.place(REPORTS)))).next_index < self._reports:
            self._reports = 0  # the store has lost the reports
        while True:
            found = await base.within(base.store.records(base.place(REPORTS), self._reports, READ_AT_ONCE))
            for record in found:
                if record.index >= self._reports:  # otherwise another look has taken it meanwhile
                    self._reports = record.index + 1
                    self.meter.report(report_from(record.text))
            if len(found) < READ_AT_ONCE:
                return


def _allocation_of(data: Mapping[str, Any]) -> tuple[Allocation, int]:
    """Return the limits of a budget's state, and their revision."""
    return allocation_of(data["allocation"]), int(data["revision"])
