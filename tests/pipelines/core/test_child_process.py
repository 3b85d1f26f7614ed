"""The end of a child process, whenever it comes."""

from __future__ import annotations

import asyncio
import sys

import anyio

from vivavoce.pipelines.core.child_process import kill_child


async def test_a_process_that_has_just_ended_may_be_killed() -> None:
    """Its end and the wish to kill it cross on a busy machine."""
    command = (sys.executable, "-S", "-c", "")
    ended = await asyncio.create_subprocess_exec(*command)
    await ended.wait()
    kill_child(ended)
    async with await anyio.open_process(command) as process:
        await process.wait()
        kill_child(process)
