"""A blocked event loop is noticed while it is blocked, with the place of the code."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio
import pytest

from kit.blocked_loop import LoopWarnings
from vivavoce.agents.worker.loop_watch import LOOKS, Blockage, LoopWatch

LIMIT = 0.2


class _Watching:
    def __init__(self) -> None:
        self.over: list[Blockage] = []
        self.changed = anyio.Event()

    def on_over(self, blockage: Blockage) -> None:
        if "in _block" in blockage.stack:  # else the machine let this thread wait, and not the watch's
            self.over.append(blockage)
            self.changed.set()


def _block(warnings: LoopWarnings) -> None:
    warnings.block(3 * LIMIT)


async def test_code_that_blocks_the_loop_is_named_while_it_blocks() -> None:
    watching = _Watching()
    with LoopWarnings.collected() as warnings:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LoopWatch(LIMIT, watching.on_over).run)
            await anyio.wait_all_tasks_blocked()
            _block(warnings)
            noticed = [message for message in warnings.messages if "in _block" in message]
            await watching.changed.wait()
            tasks.cancel_scope.cancel()

    assert len(noticed) == 1, "once for a blockage, before it is over"
    assert f"{__file__}:" in noticed[0]
    [blockage] = watching.over
    assert 3 * LIMIT < blockage.seconds < 60.0
    assert "in _block" in blockage.stack
    assert "threading.Event()" not in blockage.stack, "no source lines: they may hold values"
    assert "it was blocked for" in warnings.messages[-1]


async def test_each_blockage_is_reported_by_itself() -> None:
    watching = _Watching()
    with LoopWarnings.collected() as warnings:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LoopWatch(LIMIT, watching.on_over).run)
            await anyio.wait_all_tasks_blocked()
            for count in (1, 2):
                watching.changed = anyio.Event()
                _block(warnings)
                await watching.changed.wait()
                assert len(watching.over) == count
            tasks.cancel_scope.cancel()


def _block_computing(count: int) -> float:
    """Hold the interpreter's lock, as one call of C does, and return the seconds of processor time that it took."""
    began = time.thread_time()
    sum(range(count))
    return time.thread_time() - began


async def test_code_that_holds_the_interpreter_is_named_when_it_lets_the_watch_look() -> None:
    count = 1_000_000
    while _block_computing(count) < 2 * LIMIT:
        count *= 2
    watching = _Watching()
    with LoopWarnings.collected() as warnings:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LoopWatch(LIMIT, watching.on_over).run)
            await anyio.wait_all_tasks_blocked()
            while not watching.over:  # a watch that lost the processor within its look reports the next call
                _block_computing(count)
                with anyio.move_on_after(LIMIT):
                    await watching.changed.wait()
            tasks.cancel_scope.cancel()

    [blockage] = watching.over
    assert blockage.stack.startswith(f"{__file__}:")
    assert "in _block_computing" in blockage.stack.splitlines()[0]
    assert blockage.seconds > LIMIT
    assert any("is blocked for" in message and "in _block_computing" in message for message in warnings.messages)


async def test_a_stall_of_the_whole_process_is_no_code_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2.0
    loop = asyncio.get_running_loop()
    now = loop.time
    watching = _Watching()
    with LoopWarnings.collected() as warnings, monkeypatch.context() as patch:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LoopWatch(limit, watching.on_over).run)
            await anyio.wait_all_tasks_blocked()
            began = now()
            patch.setattr(loop, "time", lambda: now() + 100.0)  # time has passed in which no thread could run
            threading.Event().wait(1.2 * limit / LOOKS)  # the watch's thread runs first, and looks
            held = now() - began
            tasks.cancel_scope.cancel()

    assert warnings.messages == [] or held >= 0.7 * limit, "a test that was late itself has blocked the loop"


async def test_the_thread_ends_with_the_watch() -> None:
    with anyio.move_on_after(0.01):
        await LoopWatch(LIMIT, _Watching().on_over).run()

    assert not any(thread.name == "vivavoce loop watch" for thread in threading.enumerate())
