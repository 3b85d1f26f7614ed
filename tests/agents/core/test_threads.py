"""ThreadPool: a cap that holds, and threads that hold nothing up. SerialThread: calls in order."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

from vivavoce.agents.core.threads import SerialThread, ThreadPool

name: ContextVar[str] = ContextVar("name", default="")


async def test_a_function_runs_in_another_thread_with_the_context_of_its_caller() -> None:
    name.set("Ada")
    assert await ThreadPool(1).run(lambda: (name.get(), threading.get_ident() != threading.main_thread().ident)) == (
        "Ada",
        True,
    )


async def test_what_a_function_raises_is_raised() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await ThreadPool(1).run(fails)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration()])
async def test_what_would_end_a_process_only_fails_the_function(error: BaseException) -> None:
    def leaves() -> None:
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__):
        await ThreadPool(1).run(leaves)


async def test_a_function_may_run_a_loop_of_its_own() -> None:
    async def inner() -> int:
        await anyio.lowlevel.checkpoint()
        return 5

    assert await ThreadPool(1).run(lambda: anyio.run(inner)) == 5


async def test_an_abandoned_thread_counts_until_it_has_ended() -> None:
    pool, started, release = ThreadPool(1), threading.Event(), threading.Event()

    def hangs() -> None:
        started.set()
        release.wait(60)

    second: list[int] = []
    abandoned = anyio.CancelScope()
    async with anyio.create_task_group() as group:

        async def is_abandoned() -> None:
            with abandoned:
                await pool.run(hangs)

        async def waits() -> None:
            second.append(await pool.run(lambda: 2))

        group.start_soon(is_abandoned)
        assert await anyio.to_thread.run_sync(started.wait, 60)
        abandoned.cancel()
        await anyio.wait_all_tasks_blocked()
        group.start_soon(waits)
        with anyio.move_on_after(0.05):
            await pool.run(lambda: None)
        assert not second  # the only slot is taken
        release.set()
    assert second == [2]


HANGING = """
import anyio, threading
from vivavoce.agents.core.threads import ThreadPool

async def main():
    with anyio.move_on_after(0.1):
        await ThreadPool(1).run(threading.Event().wait)

anyio.run(main)
print("over")
"""


def test_a_function_that_never_returns_does_not_keep_the_process_from_ending() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "over\n"


async def test_a_serial_thread_runs_calls_one_after_the_other_and_raises_their_errors_where_they_are_awaited() -> None:
    thread = SerialThread("serial")
    seen: list[int] = []

    def fail() -> None:
        raise ValueError("broken")

    calls = [thread.submit(seen.append, number) for number in range(100)]
    with pytest.raises(ValueError, match="broken"):
        await thread.run(fail)
    assert all(call.done() for call in calls)
    assert seen == list(range(100))
    assert await thread.run(divmod, 7, 2) == (3, 1)
