"""A child process that reads from its stdin and ends by itself when that is closed: writing to it, and its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
from anyio.abc import Process


async def send_to_child(process: Process, data: bytes) -> None:
    """Write to the stdin of a process; one that has ended does not receive it, and its end says so."""
    assert process.stdin is not None
    try:
        await process.stdin.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):  # the last: of older anyio
        return


def kill_child(process: Process | asyncio.subprocess.Process) -> None:
    """Kill a process; one that has ended meanwhile needs it no more, although its end may not be reported yet."""
    with suppress(ProcessLookupError):
        process.kill()


async def end_child(process: Process, limit: float) -> None:
    """Close the stdin of a process, wait for its end, and kill it if it still runs after `limit` seconds."""
    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(limit) as waiting:
        await process.wait()
    if waiting.cancelled_caught:
        kill_child(process)  # aclose() would wait for it
    await process.aclose()
