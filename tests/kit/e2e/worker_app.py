"""One worker in a process of its own; it reports events on stdout. Account and limits come as JSON."""

from __future__ import annotations

import json
import os
import sys

import anyio

from vivavoce.agents.current_job import required_job
from vivavoce.agents.job import JobContext
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.process import run_worker
from vivavoce.agents.worker.worker import Worker


def _report(event: str) -> None:
    """Write one line by one call, since processes share the pipe and `print` may write the line's end on its own."""
    os.write(1, f"{event}\n".encode())


async def entrypoint(ctx: JobContext) -> None:
    async def close_session(reason: str) -> None:
        _report("session closed")

    required_job().attach_session(close_session)
    ctx.add_shutdown_callback(lambda: _report(f"callback, connected: {ctx.room.isconnected()}"))
    await ctx.connect()
    _report("joined")


async def main() -> None:
    worker = Worker(entrypoint, agent_name="host", options=WorkerOptions(**json.loads(sys.argv[1])))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_follow, worker)
        await run_worker(worker)
        tasks.cancel_scope.cancel()
    _report("run_worker returned")


async def _follow(worker: Worker) -> None:
    """Report when the worker has registered and when it drains; run_worker has no callback for it, so poll."""
    while worker.status is None or not worker.status.is_registered:  # noqa: ASYNC110 - no event to wait for
        await anyio.sleep(0.02)
    _report("registered")
    while worker.status is not None and not worker.status.is_draining:  # noqa: ASYNC110 - as above
        await anyio.sleep(0.02)
    _report("draining")


if __name__ == "__main__":
    anyio.run(main)
