"""Several calls and processes at one store: whose memory it is, and how soon changes of others count. All stores."""

from __future__ import annotations

import anyio
import pytest

from kit.memory import session_with, started
from vivavoce.agents import Agent, MemoryOptions
from vivavoce.agents.budget import Budget, BudgetOptions
from vivavoce.agents.memory import StoreError, Stream, StreamItem
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.pipelines.core.clock import LoopClock


async def test_a_call_under_an_id_of_another_user_is_refused_and_changes_nothing(store: SessionStore) -> None:
    clock = LoopClock()
    first = session_with(MemoryOptions(store=store, user="ada"), clock=clock)
    await started(first, clock=clock)
    await first.memory.data.set("secret", 7)
    await first.close()
    second = session_with(MemoryOptions(store=store, user="bob"), clock=clock)
    with pytest.raises(StoreError, match=r"another user; take .* erase that memory before: await store.delete\("):
        await started(second, clock=clock)
    again = session_with(MemoryOptions(store=store, user="ada"), clock=clock)
    await started(again, clock=clock)
    assert await again.memory.data.get("secret") == 7
    assert await again.memory.metadata.get("user") == "ada"
    await again.close()


async def test_a_call_that_names_no_user_is_refused_the_memory_of_one(store: SessionStore) -> None:
    clock = LoopClock()
    first = session_with(MemoryOptions(store=store, user="ada"), clock=clock)
    await started(first, clock=clock)
    snapshot = first.snapshot()
    await first.close()
    with pytest.raises(StoreError, match="that of a user; name the user"):
        await started(session_with(MemoryOptions(store=store), clock=clock), clock=clock)
    resumed = session_with(MemoryOptions(store=store), clock=clock)
    await started(resumed, resume_from=snapshot, clock=clock)  # it has the conversation already
    assert await resumed.memory.metadata.get("user") == "ada"
    await resumed.close()


async def test_a_memory_of_no_user_becomes_that_of_the_first_user(store: SessionStore) -> None:
    clock = LoopClock()
    for user in ("", "ada"):
        session = session_with(MemoryOptions(store=store, user=user), clock=clock)
        await started(session, clock=clock)
        assert await session.memory.metadata.get("user") == user
        await session.close()
    with pytest.raises(StoreError, match="another user"):
        await started(session_with(MemoryOptions(store=store, user="bob"), clock=clock), clock=clock)


async def test_another_user_who_resumes_does_not_take_a_call_that_runs(store: SessionStore) -> None:
    clock = LoopClock()
    first = session_with(MemoryOptions(store=store, user="ada"), clock=clock)
    await started(first, clock=clock)
    with pytest.raises(StoreError, match="another user"):
        await started(
            session_with(MemoryOptions(store=store, user="bob"), clock=clock), resume_from=first.snapshot(), clock=clock
        )
    await first.memory.data.set("size", 2)
    assert (await first.close()).reason == "user_initiated"


async def test_the_cost_of_another_process_counts_at_once_and_from_the_start_on(store: SessionStore) -> None:
    clock = LoopClock()
    session = session_with(MemoryOptions(store=store), budget=BudgetOptions(), clock=clock)
    await started(session, clock=clock)
    async with Budget.attach(store, "call") as other:
        await other.update_use(cost=2)
        assert (await session.budget.use())["cost"] == 2
        async with anyio.create_task_group() as group:
            await other.update_use(cost=3)
            for _ in range(5):
                group.start_soon(session.budget.use)
        assert (await session.budget.use())["cost"] == 5
    await session.close()


class Listener(Agent):
    def __init__(self) -> None:
        super().__init__("Listen.", id="listener")
        self.heard: list[object] = []
        self.has_heard = anyio.Event()

    async def on_stream(self, stream: Stream, item: StreamItem) -> None:
        self.heard.append(item.value)
        self.has_heard.set()


async def test_an_item_that_is_written_after_an_agent_was_removed_is_not_delivered_to_it(store: SessionStore) -> None:
    clock, listener = LoopClock(), Listener()
    session = session_with(MemoryOptions(store=store), clock=clock)
    await started(session, clock=clock)
    stream = await session.memory.open_stream("news", tags=("news",))
    await session.memory.add_agent(listener, tags=("news",))
    await stream.write("one")
    with anyio.fail_after(10):
        await listener.has_heard.wait()
    await session.memory.remove_agent(listener)
    await stream.write("two")
    await anyio.sleep(0.3)
    assert listener.heard == ["one"]
    await session.close()
