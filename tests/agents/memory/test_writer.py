"""MemoryWriter: a session's own writes, in order, through outages of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio

from kit.memory import session_with
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.write_queue import MAX_SIZE, MAX_WAITING
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.memory import StoreError, StoreUnavailable, StoreValueError
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.writer import MemoryWriter
from vivavoce.agents.testing import VirtualClock, run_virtual


class Desk:
    """A writer, and a store of numbers that fails and hangs as the test sets it."""

    def __init__(self, context: SessionContext) -> None:
        self.context = context
        self.base = MemoryBase(InProcessStore(clock=context.clock), timeout=2.0, clock=context.clock)
        self.writer = MemoryWriter(context, self.base, StoreHealth(context))
        self.error: Exception | None = None
        self.hangs = False
        self.bad: set[int] = set()
        """Numbers that it fails to write, for a reason of its own."""
        self.written: list[int] = []
        self.errors: list[ErrorOccurred] = []
        context.log.emitter.on("error", self.errors.append)

    def put(self, *numbers: int, size: int = 0) -> None:
        for number in numbers:
            self.writer.put(partial(self._write, number), size=size)

    async def _write(self, number: int) -> None:
        if self.hangs:
            await anyio.sleep_forever()
        if self.error is not None:
            raise self.error
        if number in self.bad:
            raise KeyError(number)
        self.written.append(number)

    async def close(self) -> int:
        """Close the writer; return the number of lost writes."""
        await self.writer.aclose()
        self.context.log.flush()
        return self.writer.lost


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    session = session_with()
    context = SessionContext(
        session,
        "call",
        VirtualClock(),
        agent=session.agent,
        capabilities=session.pipeline.capabilities,
        limit=5.0,
    )
    made = Desk(context)
    async with anyio.create_task_group() as group:
        context.open(group)
        made.writer.open()
        yield made
        group.cancel_scope.cancel()


def virtually(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        run_virtual(test())

    run.__name__ = test.__name__
    return run


@virtually
async def test_writes_are_made_in_order_and_the_close_waits_for_them() -> None:
    async with desk() as store:
        store.put(1, 2, 3)
        assert store.written == []
        assert await store.close() == 0
        assert store.written == [1, 2, 3]


@virtually
async def test_writes_of_an_outage_wait_and_are_made_once_the_store_is_back_with_one_error_event() -> None:
    async with desk() as store:
        store.error = StoreUnavailable("scripted")
        store.put(1, 2)
        await anyio.sleep(60.0)
        store.put(3)
        store.error = None
        await anyio.sleep(10.0)
        assert store.written == [1, 2, 3]
        assert await store.close() == 0
        assert [(event.source, event.is_recovered) for event in store.errors] == [("memory", True)]


@virtually
async def test_a_second_outage_is_a_second_error_event() -> None:
    async with desk() as store:
        for number in (1, 2):
            store.error = StoreUnavailable("scripted")
            store.put(number)
            await anyio.sleep(10.0)
            store.error = None
            await anyio.sleep(10.0)
        await store.close()
        assert len(store.errors) == 2


@virtually
async def test_a_store_that_hangs_costs_the_close_one_timeout_and_the_lost_writes_are_counted() -> None:
    async with desk() as store:
        store.hangs = True
        store.put(1, 2, 3)
        await anyio.sleep(30.0)
        before = anyio.current_time()
        assert await store.close() == 3
        assert anyio.current_time() - before <= 4.0  # the write at work, and the last try


@virtually
async def test_a_write_that_the_store_never_takes_is_lost_alone() -> None:
    async with desk() as store:
        store.error = StoreValueError("too long")
        store.put(1)
        await anyio.sleep(1.0)
        store.error = None
        store.put(2)
        assert await store.close() == 1
        assert store.written == [2]
        assert [event.is_recovered for event in store.errors] == [False]


@virtually
async def test_a_write_that_the_store_refuses_is_lost_alone_and_many_of_them_are_one_error_event() -> None:
    async with desk() as store:
        store.error = StoreError("Redis refused a call: WRONGTYPE")
        store.put(1, 2, 3)
        await anyio.sleep(1.0)
        store.error = None
        store.put(4)
        await anyio.sleep(1.0)
        store.error = StoreError("again")
        store.put(5)
        assert await store.close() == 4
        assert store.written == [4]
        assert [event.is_recovered for event in store.errors] == [False, False]


@virtually
async def test_a_write_whose_store_raises_something_else_is_tried_a_few_times_and_then_lost_alone() -> None:
    async with desk() as store:
        store.error = KeyError("a fault in the store")
        store.put(1)
        await anyio.sleep(3.0)
        assert store.writer.lost == 0
        await anyio.sleep(10.0)
        assert store.writer.lost == 1
        store.error = None
        store.put(2)
        assert await store.close() == 1
        assert store.written == [2]


@virtually
async def test_large_writes_have_a_bound_of_their_own() -> None:
    async with desk() as store:
        store.error = StoreUnavailable("scripted")
        for number in range(9):
            store.put(number, size=MAX_SIZE // 4)
        await anyio.sleep(10.0)
        store.error = None
        store.put(9, size=2 * MAX_SIZE)
        await anyio.sleep(10.0)
        assert store.written == [9]
        assert await store.close() == 9
        assert len(store.errors) == 2


@virtually
async def test_beyond_the_bound_the_oldest_writes_are_lost_and_the_others_keep_their_order() -> None:
    async with desk() as store:
        store.error = StoreUnavailable("scripted")
        store.put(*range(MAX_WAITING + 7))
        await anyio.sleep(10.0)
        store.error = None
        await anyio.sleep(10.0)
        assert store.written == list(range(7, MAX_WAITING + 7))
        assert await store.close() == 7


@virtually
async def test_a_write_after_the_close_is_lost_and_counted() -> None:
    async with desk() as store:
        assert await store.close() == 0
        store.put(1)
        assert store.writer.lost == 1


@virtually
async def test_the_close_makes_writes_again_that_fail_while_the_store_comes_back() -> None:
    async with desk() as store:
        store.error = StoreUnavailable("scripted")
        store.put(1, 2)
        async with anyio.create_task_group() as group:
            group.start_soon(store.close)
            await anyio.sleep(1.0)
            store.error = None
        assert (store.writer.lost, store.written) == (0, [1, 2])


@virtually
async def test_at_the_close_writes_that_always_fail_cost_no_later_ones() -> None:
    async with desk() as store:
        store.bad = {1, 4}
        store.put(1, 2, 3, 4, 5)
        assert await store.close() == 2
        assert store.written == [2, 3, 5]


@virtually
async def test_a_writer_whose_memory_another_session_has_writes_nothing_more() -> None:
    async with desk() as store:
        store.put(1, 2, 3)
        store.base.lose()
        assert await store.close() == 3
        assert store.written == []
