"""The worker's handle of a job process, without a process."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing import Pipe, reduction
from multiprocessing.connection import Connection
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from vivavoce.agents.worker.executors import handles
from vivavoce.agents.worker.executors.handles import NurseryHandle, ProcessHandle
from vivavoce.agents.worker.executors.ipc import Reader, hang_up
from vivavoce.agents.worker.executors.messages import Fork
from vivavoce.agents.worker.executors.nursery_process import NurseryProcess


async def test_a_process_that_is_over_while_its_stacks_are_awaited_costs_nothing_more() -> None:
    def over(cause: str) -> None:
        causes.append(cause)
        handle.close()

    causes: list[str] = []
    handle = ProcessHandle(1, lambda message: None, over)
    with anyio.fail_after(60.0):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handle.log_stacks)
            await anyio.lowlevel.checkpoint()
            handle.exited("exited with status 1")
    assert causes == ["exited with status 1"]


def test_a_connection_is_hung_up_though_no_file_handle_is_left() -> None:
    ours, theirs = Pipe()
    with ours, theirs:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            hang_up(ours)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        with pytest.raises(EOFError):
            theirs.recv()
        hang_up(theirs)
        assert not ours.closed


async def test_a_message_that_cannot_be_read_is_named_and_the_connection_goes_on_to_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = Pipe()
    heard: list[Any] = []
    over = anyio.Event()

    def hear(message: Any) -> None:
        heard.append(message)
        if message is None:
            over.set()

    with ours, theirs:
        reader = Reader("job process 1", ours, asyncio.get_running_loop(), hear)
        theirs.send("one")
        theirs.send_bytes(b"no pickle")
        theirs.send("two")
        theirs.close()
        with anyio.fail_after(60.0):
            await over.wait()
        reader.join()

    assert heard == ["one", "two", None]
    assert "a message of job process 1 cannot be read: UnpicklingError" in caplog.text


@asynccontextmanager
async def _stuck_nursery() -> AsyncIterator[tuple[NurseryHandle, Connection]]:
    """Yield a nursery that neither makes a process nor reports an end, and its end of the connection."""
    ours, its = Pipe()
    process = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - it starts at once
    nursery = NurseryHandle(NurseryProcess(process, ours), lambda report: None)
    with its:
        try:
            yield nursery, its
        finally:
            process.kill()
            await nursery.aclose(0.0)


async def test_a_nursery_gets_each_request_whole_though_no_file_handle_is_left() -> None:
    async with _stuck_nursery() as (nursery, its):
        stacks = os.dup(0)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                nursery.fork(1, its, stacks)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert not its.poll()
        nursery.fork(2, its, stacks)
        os.close(stacks)
        assert its.recv() == Fork(number=2)
        for received in [reduction.recv_handle(its) for _ in range(2)]:
            os.close(received)


async def test_a_killed_process_is_over_though_the_nursery_reports_neither_its_begin_nor_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handles, "EXIT_WAIT", 0.05)
    monkeypatch.setattr(handles, "REPORT_WAIT", 0.05)
    causes: list[str] = []
    over = anyio.Event()

    def ended(cause: str) -> None:
        causes.append(cause)
        if len(causes) == 2:
            over.set()

    async with _stuck_nursery() as (nursery, its):
        made, not_made = ProcessHandle(1, lambda message: None, ended), ProcessHandle(2, lambda message: None, ended)
        made.fork(nursery)
        assert its.recv() == Fork(number=1)
        for received in [reduction.recv_handle(its) for _ in range(2)]:
            os.close(received)  # so its process has ended
        not_made.fork(nursery)
        not_made.kill()
        with anyio.fail_after(60.0):
            await over.wait()
        not_made.close()
        made.close()

    assert causes == ["ended with an unknown status"] * 2
