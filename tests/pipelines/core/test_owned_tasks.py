"""Tasks with an owner end with it."""

from __future__ import annotations

import asyncio
import logging

import anyio.lowlevel
import pytest

from vivavoce.pipelines.core.owned_tasks import OwnedTasks


async def test_the_owner_ends_its_tasks() -> None:
    tasks = OwnedTasks("socket")
    one = tasks.task(asyncio.Event().wait(), "reader")
    assert one.get_name() == "socket: reader"
    tasks.cancel()
    await tasks.finish(1.0)
    assert one.cancelled()


async def test_a_task_that_ignores_its_end_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    tasks = OwnedTasks("socket")
    one = tasks.task(stubborn(), "reader")
    await anyio.lowlevel.checkpoint()
    tasks.cancel()
    with caplog.at_level(logging.ERROR):
        await tasks.finish(0.01)
    assert "socket: reader ignores its end" in caplog.text
    go.set()
    await one


async def test_a_task_may_end_its_owner(caplog: pytest.LogCaptureFixture) -> None:
    tasks = OwnedTasks("socket")
    await tasks.task(tasks.finish(0.01), "closing")
    assert caplog.text == ""
