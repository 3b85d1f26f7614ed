"""BoundedThread: one piece of work at a time, also when callers leave."""

from __future__ import annotations

import threading

import anyio
import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.bounded_thread import BoundedThread


class Work:
    """A piece of work that goes on until it is let go."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.order: list[str] = []

    def long(self) -> None:
        self.has_begun.set()
        self.may_end.wait(LIMIT)
        self.order.append("long")

    def short(self) -> None:
        self.order.append("short")


async def _abandon(thread: BoundedThread, work: Work) -> None:
    """Have the long work begin, and leave it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.run, work.long)
        with anyio.fail_after(LIMIT):
            while not work.has_begun.is_set():
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_work_waits_for_begun_work_whose_caller_was_cancelled() -> None:
    thread, work = BoundedThread("test"), Work()
    await _abandon(thread, work)
    assert thread.is_busy
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.run, work.short)
        await anyio.wait_all_tasks_blocked()
        work.may_end.set()
    assert work.order == ["long", "short"]
    assert not thread.is_busy


async def test_work_whose_caller_was_cancelled_before_it_began_is_left_out() -> None:
    thread, work = BoundedThread("test"), Work()
    await _abandon(thread, work)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.run, work.short)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    work.may_end.set()
    await thread.run(work.order.append, "last")
    assert work.order == ["long", "last"]


async def test_a_cancelled_call_begins_no_work_and_holds_nothing() -> None:
    thread, work = BoundedThread("test"), Work()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await thread.run(work.short)
    assert not thread.is_busy
    assert work.order == []


async def test_an_error_of_the_work_is_the_callers_and_the_next_one_runs() -> None:
    thread = BoundedThread("test")
    with pytest.raises(ZeroDivisionError):
        await thread.run(divmod, 1, 0)
    assert await thread.run(divmod, 7, 2) == (3, 1)
