"""The budget of a session that goes on with an earlier one, and of a new call under an old id. One token costs one."""

from __future__ import annotations

import copy
from typing import Any

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions
from vivavoce.agents.budget import Budget, BudgetOptions, Price
from vivavoce.agents.memory import InProcessStore, StoreError
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.base import Usage

TOKEN = Price(million_input=1e6, million_output=1e6, audio_minute=0, million_characters=0)


def budget() -> BudgetOptions:
    return BudgetOptions(cost=100, prices={"scripted": TOKEN})


def _answering(count: int) -> ScriptedLLM:
    return ScriptedLLM(["Sure.", Usage(input_tokens=count)], default="Fine.")


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_resumed_session_goes_on_with_use_and_limits_and_counts_nothing_twice(is_shared: bool) -> None:
    async def main() -> None:
        clock = VirtualClock()
        store = InProcessStore(clock=clock) if is_shared else None
        first = _talking(60, store, "first")
        await started(first)
        await first.reply("Answer.")
        await first.budget.set_allocation(cost=150)
        taken = first.snapshot()
        await first.close()

        second = _talking(50, store, "second")
        await started(second, resume_from=taken)
        assert await second.budget.use() == {"cost": 60.0, "accuracy": None, "latency": None}
        assert (await second.budget.allocation())["cost"] == 150
        await second.reply("Answer.")
        assert (await second.budget.use())["cost"] == 110.0
        usage = await second.budget.usage()
        assert usage["scripted"].llm_input_tokens == 110
        await second.close()

    run_virtual(main())


def test_the_budget_in_the_memory_of_a_snapshot_of_version_2_goes_on() -> None:
    async def main() -> None:
        first = _talking(60, None, "first")
        await started(first)
        await first.reply("Answer.")
        await first.budget.set_allocation(cost=150)
        taken = first.snapshot()
        await first.close()
        kept = taken.pop("extensions")
        memory = {"id": "first", "private": {}, "positions": {}, "namespaces": {}, "budget": kept["budget"]}
        second = _talking(50, None, "second")
        await started(second, resume_from={**taken, "version": 2, "memory": memory})
        assert (await second.budget.use())["cost"] == 60.0
        assert (await second.budget.allocation())["cost"] == 150
        await second.close()

    run_virtual(main())


def _talking(tokens: int, store: InProcessStore | None, id: str) -> AgentSession[Any]:
    agent = Agent("Be brief.", id="desk")
    pipeline = SessionHarness(agent, _answering(tokens)).pipeline
    options = SessionOptions(clock=VirtualClock(), memory=MemoryOptions(store=store), budget=budget())
    return AgentSession(agent, pipeline, options=options, id=id)


def test_a_session_that_continues_a_killed_one_takes_the_newest_use_of_the_store() -> None:
    async def main() -> None:
        store = InProcessStore(clock=VirtualClock())
        first = _talking(60, store, "first")
        await started(first)
        taken = first.snapshot()
        await first.reply("Answer.")
        await anyio.sleep(1.0)
        second = _talking(50, store, "second")
        await started(second, resume_from=taken)  # the first one loses its lease
        assert (await second.budget.use())["cost"] == 60.0
        await second.budget.update_use(cost=1)
        await first.wait_closed()
        with pytest.raises(StoreError, match="another session has the memory"):
            await first.budget.update_use(cost=1000)
        async with Budget.attach(store, "first") as other:
            assert (await other.use())["cost"] == 61.0
        await second.close()

    run_virtual(main())


def test_a_session_that_is_resumed_in_an_outage_goes_on_with_the_store_s_use_once_that_is_back() -> None:
    async def main() -> None:
        root = ScriptedStore()
        dead, own = copy.copy(root), copy.copy(root)  # the same data, reached by two processes
        first = _talking(60, dead, "first")
        await started(first)
        taken = first.snapshot()
        await first.reply("Answer.")
        async with Budget.attach(root, "first") as other:
            await other.update_use(cost=3)
            await other.set_allocation(cost=150)
            await anyio.sleep(2.0)
            dead.is_down = own.is_down = True
            await other.update_use(cost=4)
            second = _talking(50, own, "second")
            await started(second, resume_from=taken)
            mine = second.budget
            await mine.update_use(cost=5, accuracy=0.5)
            assert await mine.use() == {"cost": 5.0, "accuracy": 0.5, "latency": None}
            await anyio.sleep(20.0)
            own.is_down = False
            await anyio.sleep(10.0)
            expected = {"cost": 60.0 + 3.0 + 4.0 + 5.0, "accuracy": 0.5, "latency": None}
            assert await mine.use() == await other.use() == expected
            assert (await mine.usage())["scripted"].llm_input_tokens == 60
            assert (await mine.allocation())["cost"] == (await other.allocation())["cost"] == 150
        await second.close()
        await first.close()

    run_virtual(main())


def test_limits_that_are_set_in_an_outage_are_kept_when_the_store_is_back() -> None:
    async def main() -> None:
        store = ScriptedStore()
        first = _talking(60, store, "first")
        await started(first)
        taken = first.snapshot()
        await first.budget.set_allocation(cost=150)
        await first.close()
        store.is_down = True
        second = _talking(50, store, "second")
        await started(second, resume_from=taken)
        assert await second.budget.set_allocation(cost=90)
        store.is_down = False
        await anyio.sleep(10.0)
        async with Budget.attach(store, "first") as other:
            limits = await other.allocation()
        assert limits["cost"] == (await second.budget.allocation())["cost"] == 90
        await second.close()

    run_virtual(main())


@pytest.mark.parametrize("is_down", [False, True])
def test_a_new_call_under_an_old_id_begins_with_its_own_limits_and_no_use(is_down: bool) -> None:
    async def main() -> None:
        store = ScriptedStore()
        first = session_with(MemoryOptions(store=store), budget=budget())
        await started(first)
        await first.budget.update_use(cost=90, accuracy=0.5)
        await first.budget.set_allocation(cost=500)
        await first.memory.data.set("visits", 1)
        await first.close()
        async with Budget.attach(store, "call") as other:
            await other.update_use(cost=5)  # comes too late for that call
            store.is_down = is_down
            second = session_with(MemoryOptions(store=store), budget=budget())
            await started(second)
            mine = second.budget
            await anyio.sleep(3.0)
            store.is_down = False
            await anyio.sleep(10.0)
            assert await mine.use() == await other.use() == {"cost": 0.0, "accuracy": None, "latency": None}
            assert (await mine.allocation())["cost"] == (await other.allocation())["cost"] == 100
            await other.update_use(cost=3)
            await anyio.sleep(1.2)
            assert (await mine.use())["cost"] == 3.0
        assert await second.memory.data.get("visits") == 1
        assert (await second.close()).lost_writes == 0

    run_virtual(main())


def test_the_budget_of_a_snapshot_that_is_none_is_refused() -> None:
    async def main() -> None:
        first = _talking(1, None, "first")
        await started(first)
        taken = first.snapshot()
        await first.close()
        taken["extensions"]["budget"] = {"allocation": {"cost": "much"}}
        with pytest.raises(ConfigurationError, match="the budget of a snapshot must be what snapshot"):
            await started(_talking(1, None, "second"), resume_from=taken)

    run_virtual(main())
