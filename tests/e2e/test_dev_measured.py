"""The silence of calls that a save moves, by its seconds: nothing else runs beside these tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from kit.e2e.command import Running, running
from kit.e2e.dev_app import seen, two_calls, write_app, write_folder
from kit.e2e.listener import Listener

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(180),
    pytest.mark.test_all("the silence of real calls is judged by its seconds"),
]

MAX_SILENCE = 1.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


@pytest.fixture
def dev(folder: Path) -> Iterator[Running]:
    with running(folder, "dev", "app.py", "--port", "0") as command:
        command.read_until("registered")
        yield command


async def moved(caller: Listener, first: str) -> float:
    """Wait until another agent than `first` is heard, and half a second more; return when that one was heard first."""
    await caller.until(lambda: len(caller.agents) == 1 and caller.agents != [first])
    (second,) = caller.agents
    await caller.until(lambda: bool(caller.heard.get(second)))
    since = caller.heard[second][0]
    await caller.until(lambda: caller.loud_at[-1] > since + 0.5)
    return since


async def test_no_caller_of_several_hears_a_gap_when_a_save_moves_their_calls(dev: Running, folder: Path) -> None:
    async with two_calls(dev) as callers:
        firsts = {room: caller.agents[0] for room, caller in callers.items()}
        since = time.monotonic()
        write_app(folder, "v2", "The new code booked")
        await seen(dev, "The new code talks now (2 calls moved)")
        async with anyio.create_task_group() as tasks:
            for room, caller in callers.items():
                tasks.start_soon(moved, caller, firsts[room])
        for room, caller in callers.items():
            silence = caller.longest_silence(since, caller.loud_at[-1])
            print(f"{room}: longest silence {silence:.3f} s")
            assert silence <= MAX_SILENCE
    assert dev.end() == 0
