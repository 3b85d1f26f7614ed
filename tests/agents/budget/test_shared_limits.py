"""Limits of one budget that several processes set at nearly the same time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import MemoryOptions
from vivavoce.agents.budget import Budget, BudgetOptions, Price
from vivavoce.agents.memory import StoreError, StoreUnavailable
from vivavoce.agents.memory.stores.store import Change, Place
from vivavoce.agents.testing import run_virtual

T = TypeVar("T")

PRICES = {"scripted": Price()}


class FarStore(ScriptedStore):
    """A store to which a change, and from which its answer, takes a while."""

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        await anyio.sleep(0.2)
        result = await super().change(place, entry, change)
        await anyio.sleep(0.2)
        return result


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3, 0.5, 1.1])
def test_limits_that_two_processes_set_at_nearly_the_same_time_are_all_kept(
    seconds: float, order: Sequence[int]
) -> None:
    async def main() -> None:
        store = FarStore()
        budget = BudgetOptions(cost=100, prices=PRICES)
        session = session_with(MemoryOptions(store=store), budget=budget)
        await started(session)
        await anyio.sleep(3.0)
        mine = session.budget
        async with Budget.attach(store, "call") as other:
            calls = (partial(mine.set_allocation, latency=2), partial(other.set_allocation, cost=50))
            for index in order:
                assert await calls[index]()
                await anyio.sleep(seconds)
            await anyio.sleep(5.0)
            kept = {"cost": 50.0, "accuracy": -1.0, "latency": 2.0}
            assert (await mine.allocation(), await other.allocation()) == (kept, kept)
        await session.close()

    run_virtual(main())


def test_of_two_processes_that_set_the_same_limit_the_last_one_counts_for_both() -> None:
    async def main() -> None:
        store = FarStore()
        session = session_with(MemoryOptions(store=store), budget=BudgetOptions(cost=100, prices=PRICES))
        await started(session)
        await anyio.sleep(3.0)
        mine = session.budget
        async with Budget.attach(store, "call") as other:
            await other.set_allocation(cost=50)
            await mine.set_allocation(cost=70)
            await anyio.sleep(5.0)
            assert (await mine.allocation())["cost"] == (await other.allocation())["cost"] == 70
            await other.set_allocation(cost=60)
            await anyio.sleep(5.0)
            assert (await mine.allocation())["cost"] == (await other.allocation())["cost"] == 60
        await session.close()

    run_virtual(main())


def test_a_score_that_is_recorded_after_the_call_is_kept() -> None:
    async def main() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store), budget=BudgetOptions(accuracy=0.5))
        await started(session)
        mine = session.budget
        await mine.update_use(accuracy=1.0)
        await session.close()
        await mine.update_use(cost=2, accuracy=0.5)
        assert await mine.set_allocation(accuracy=0.25)
        async with Budget.attach(store, "call") as other:
            for budget in (mine, other):
                assert await budget.use() == {"cost": 2.0, "accuracy": 0.75, "latency": None}
                assert (await budget.allocation())["accuracy"] == 0.25
        store.is_down = True
        with pytest.raises(StoreUnavailable):
            await mine.update_use(accuracy=0.0)
        store.is_down = False
        again = session_with(MemoryOptions(store=store), budget=BudgetOptions(accuracy=0.5))
        await started(again)
        await anyio.sleep(1.0)
        for change in (mine.update_use, mine.set_allocation):
            with pytest.raises(StoreError, match="another session has the memory"):
                await change(accuracy=0.0)
        assert await again.budget.use() == {"cost": 0.0, "accuracy": None, "latency": None}
        await again.close()

    run_virtual(main())


def test_a_score_that_is_recorded_after_a_call_without_a_store_counts() -> None:
    async def main() -> None:
        session = session_with(budget=BudgetOptions(accuracy=0.5))
        await started(session)
        await session.close()
        await session.budget.update_use(accuracy=1.0)
        assert (await session.budget.use())["accuracy"] == 1.0

    run_virtual(main())
