"""A session whose store loses it while it runs: a Redis without a disk that restarts, or an application that erases."""

from __future__ import annotations

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import MemoryOptions
from vivavoce.agents.budget import Budget, BudgetOptions, Price
from vivavoce.agents.memory import SessionMemory
from vivavoce.agents.replies import Markdown
from vivavoce.agents.testing import run_virtual


@pytest.mark.parametrize("is_down", [True, False], ids=["emptied in an outage", "erased"])
def test_a_running_session_that_its_store_has_lost_is_there_again_for_other_processes(is_down: bool) -> None:
    async def main() -> None:
        store = ScriptedStore()
        budget = BudgetOptions(cost=100, prices={"scripted": Price()})
        session = session_with(MemoryOptions(store=store, user="ada", name="A table", keep=60.0), budget=budget)
        room = await started(session)
        await anyio.sleep(1.0)
        begun = await session.memory.to_dict()
        limits = await session.budget.allocation()
        async with SessionMemory.attach(store, "call") as memory, Budget.attach(store, "call") as other:
            await other.update_use(cost=3)
            await memory.post(Markdown("one"))
        await anyio.sleep(3.0)
        store.is_down = is_down
        await anyio.sleep(10.0)
        await store.delete("call")
        store.is_down = False
        await anyio.sleep(15.0)
        room.send_text("a table")
        await anyio.sleep(1.0)
        assert [one.id for one in await store.sessions("ada")] == ["call"]
        async with SessionMemory.attach(store, "call") as memory, Budget.attach(store, "call") as other:
            shown = await memory.to_dict()
            assert (shown["metadata"], shown["agents"]) == (begun["metadata"], begun["agents"])
            assert (await other.allocation(), await other.use()) == (limits, await session.budget.use())
            assert [message.content for message in await memory.get_chat_history()] == ["a table", "Fine."]
            transcript = await memory.open_stream("agent_transcript")
            assert [item.value async for item in transcript.read(follow=False)] == ["Fine."]
            await other.update_use(cost=4)
            await memory.post(Markdown("two"))
            await anyio.sleep(3.0)
            assert (await session.budget.use())["cost"] == 7.0
            await memory.stop()
            assert await memory.wait(timeout=5.0)
        assert (await session.wait_closed()).lost_writes == 0
        await anyio.sleep(61.0)
        assert await store.sweep() == ["call"]

    run_virtual(main())


def test_values_that_were_deleted_stay_deleted_after_an_outage() -> None:
    async def main() -> None:
        first = session_with(id="first")
        await started(first)
        await first.memory.data.set("order", 1)
        snapshot = first.snapshot()
        await first.close()
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store, name="A table"))
        await started(session, resume_from=snapshot)
        await anyio.sleep(1.0)
        assert await session.memory.data.delete("order")
        assert await session.memory.metadata.delete("name")
        store.is_down = True
        await anyio.sleep(10.0)
        store.is_down = False
        await anyio.sleep(10.0)
        assert await session.memory.data.get_all() == {}
        assert "name" not in await session.memory.metadata.get_all()
        await session.close()

    run_virtual(main())
