"""The worker's handle of a job process, without a process."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from vivavoce.agents.worker.executors.handles import ProcessHandle


async def test_a_process_that_is_over_while_its_stacks_are_awaited_costs_nothing_more() -> None:
    def over(cause: str) -> None:
        causes.append(cause)
        handle.close()

    causes: list[str] = []
    handle = ProcessHandle(1, lambda message: None, over)
    with anyio.fail_after(10.0):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handle.log_stacks)
            await anyio.lowlevel.checkpoint()
            handle.exited("exited with status 1")
    assert causes == ["exited with status 1"]
