"""One worker in a process of its own; it reports events on stdout. Account and limits come as JSON."""

from __future__ import annotations

import json
import sys

import anyio

from vivavoce.agents.current_job import required_job
from vivavoce.agents.job import JobContext
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.process import run_worker
from vivavoce.agents.worker.worker import Worker


async def entrypoint(ctx: JobContext) -> None:
    async def close_session(reason: str) -> None:
        print("session closed", flush=True)

    required_job().attach_session(close_session)
    ctx.add_shutdown_callback(lambda: print(f"callback, connected: {ctx.room.isconnected()}", flush=True))
    await ctx.connect()
    print("joined", flush=True)


async def main() -> None:
    worker = Worker(entrypoint, agent_name="host", options=WorkerOptions(**json.loads(sys.argv[1])))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, worker)
        await run_worker(worker)
        tasks.cancel_scope.cancel()
    print("run_worker returned", flush=True)


async def _tell(worker: Worker) -> None:
    """Report when the worker has registered and when it drains; run_worker has no callback for it, so poll."""
    while worker.status is None or not worker.status.is_registered:  # noqa: ASYNC110 - no event to wait for
        await anyio.sleep(0.02)
    print("registered", flush=True)
    while worker.status is not None and not worker.status.is_draining:  # noqa: ASYNC110 - as above
        await anyio.sleep(0.02)
    print("draining", flush=True)


if __name__ == "__main__":
    anyio.run(main)
