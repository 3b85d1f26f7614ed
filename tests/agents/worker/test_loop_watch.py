"""A blocked event loop is noticed while it is blocked, with the place of the code."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import anyio
import pytest

from vivavoce.agents.worker import loop_watch
from vivavoce.agents.worker.loop_watch import Blockage, LoopWatch

LIMIT = 0.2


class _Watching:
    def __init__(self) -> None:
        self.over: list[Blockage] = []
        self.changed = anyio.Event()

    def on_over(self, blockage: Blockage) -> None:
        self.over.append(blockage)
        self.changed.set()


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.has_come = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.has_come.set()


@pytest.fixture
def warnings() -> Iterator[_Warnings]:
    handler = _Warnings()
    loop_watch.logger.addHandler(handler)
    yield handler
    loop_watch.logger.removeHandler(handler)


def _block(warnings: _Warnings) -> None:
    # Until the watch has noticed: on a busy machine its thread may get the processor late.
    assert warnings.has_come.wait(10.0)
    threading.Event().wait(3 * LIMIT)


async def test_code_that_blocks_the_loop_is_named_while_it_blocks(warnings: _Warnings) -> None:
    watching = _Watching()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(LoopWatch(LIMIT, watching.on_over).run)
        await anyio.wait_all_tasks_blocked()
        _block(warnings)
        noticed = list(warnings.messages)
        with anyio.fail_after(5.0):
            await watching.changed.wait()
        tasks.cancel_scope.cancel()

    assert len(noticed) == 1, "once for a blockage, before it is over"
    assert "in _block" in noticed[0]
    assert f"{__file__}:" in noticed[0]
    [blockage] = watching.over
    assert 3 * LIMIT < blockage.seconds < 60.0
    assert "in _block" in blockage.stack
    assert "threading.Event()" not in blockage.stack, "no source lines: they may hold values"
    assert "it was blocked for" in warnings.messages[-1]


async def test_each_blockage_is_reported_by_itself(warnings: _Warnings) -> None:
    watching = _Watching()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(LoopWatch(LIMIT, watching.on_over).run)
        await anyio.wait_all_tasks_blocked()
        for count in (1, 2):
            watching.changed = anyio.Event()
            warnings.has_come.clear()
            _block(warnings)
            with anyio.fail_after(5.0):
                await watching.changed.wait()
            assert len(watching.over) == count
        tasks.cancel_scope.cancel()


async def test_the_thread_ends_with_the_watch() -> None:
    with anyio.move_on_after(0.01):
        await LoopWatch(LIMIT, _Watching().on_over).run()

    assert not any(thread.name == "vivavoce loop watch" for thread in threading.enumerate())
