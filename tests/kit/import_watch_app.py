"""A worker in a process of its own that prints the modules which its event loop loads while a watch looks at it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import anyio

from vivavoce.agents.job import JobContext
from vivavoce.agents.worker.executors.options import ProcessExecution, TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker


class ImportWatch:
    """Notes, as the first finder of modules, each module that the watched thread is about to load."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Find nothing."""
        is_watched = any(thread.name == "vivavoce loop watch" for thread in threading.enumerate())
        if is_watched and threading.current_thread() is threading.main_thread():
            self.loaded.append(name)


async def entrypoint(ctx: JobContext) -> None:
    """End at once."""
    ctx.shutdown("done")


async def main(url: str, api_key: str, api_secret: str, executor: str) -> None:
    """Register, work until the server has ended the job, and print the modules."""
    watch = ImportWatch()
    sys.meta_path.insert(0, watch)
    jobs = TaskExecution() if executor == "tasks" else ProcessExecution(processes=1)
    options = WorkerOptions(
        url=url, api_key=api_key, api_secret=api_secret, executor=jobs, crash_safety=None, health_port=0
    )
    async with anyio.create_task_group() as tasks:
        worker = Worker(entrypoint, options=options)
        await tasks.start(worker.run)
        print("registered", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        await worker.aclose()
    print(json.dumps(watch.loaded))


if __name__ == "__main__":
    anyio.run(partial(main, *sys.argv[1:]))
