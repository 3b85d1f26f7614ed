"""The end of a child process that ends by itself when its stdin is closed."""

from __future__ import annotations

import anyio
from anyio.abc import Process


async def end_child(process: Process, limit: float) -> None:
    """Close the stdin of a process, wait for its end, and kill it if it still runs after `limit` seconds."""
    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(limit) as waiting:
        await process.wait()
    if waiting.cancelled_caught:
        process.kill()  # aclose() would wait for it
    await process.aclose()
