"""A pool of job processes beside a test, without a worker and a server."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import anyio

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import ExecutorChanged, JobEnded
from vivavoce.agents.worker.executors.executor import Entrypoint, ProcessFacts
from vivavoce.agents.worker.executors.nursery_process import NurseryProcess
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.executors.process import ProcessExecutor
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import JobAssigned

LIMIT = 100.0
"""Seconds after which a wait counts as hung: a starved machine needs a minute for processes that are made twice."""


class JobPool:
    """`async with JobPool(entrypoint) as pool:` the processes are warm in it, and over after it."""

    def __init__(
        self,
        entrypoint: Entrypoint,
        *,
        prewarm: Callable[[dict[str, Any]], None] | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
        nursery: Callable[[], NurseryProcess | None] = lambda: None,
        **execution: Any,
    ) -> None:
        self._held = _held()
        self._execution = ProcessExecution(**execution)
        room = (self._execution.processes or 1) * (self._execution.jobs_per_process or 10)
        given = WorkerOptions(prewarm=prewarm, executor=self._execution, max_jobs=room, **options)
        self.executor = ProcessExecutor(entrypoint, given, self._execution, nursery())
        self.states: list[ExecutorChanged] = []
        self._ended: dict[str, JobEnded] = {}
        self._started: set[str] = set()
        self._over: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._ready = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._others: set[int] = set()
        """Processes of other tests."""

    def started(self, value: None = None) -> None:
        """Called by the executor when all processes are warm."""
        self._ready.set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._others = descendants_of(os.getpid())
        self._running = loop.create_task(self.executor.run(self._on_ended, self.states.append, task_status=self))
        ready = loop.create_task(self._ready.wait())
        try:
            await asyncio.wait({self._running, ready}, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED)
            if self._running.done():
                await self._running
            assert self._ready.is_set(), f"the processes were not ready within {LIMIT} s"
        except BaseException:
            await self._close()
            raise
        finally:
            ready.cancel()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close()

    def start(self, job_id: str, deed: str) -> None:
        """Run a job with that metadata."""
        self._started.add(job_id)
        job = JobInfo(id=job_id, room=f"room-of-{job_id}", metadata=deed)
        self.executor.start(JobAssigned(job=job, url="", token="no-token"), "ws://127.0.0.1:1")

    async def ended(self, job_id: str) -> JobEnded:
        """Wait for the end of a job."""
        async with asyncio.timeout(LIMIT):
            await self._over[job_id].wait()
        return self._ended[job_id]

    def is_running(self, job_id: str) -> bool:
        """Whether a started job has not ended."""
        return job_id in self._started - self._ended.keys()

    async def full(self, size: int | None = None) -> tuple[ProcessFacts, ...]:
        """Wait until there are as many processes as there should be, and return their facts."""
        wanted = size or self._execution.processes
        async with asyncio.timeout(LIMIT):
            while len(facts := self.executor.facts()) != wanted:  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.02)
        return facts

    def _on_ended(self, ended: JobEnded) -> None:
        assert ended.job_id not in self._ended, "reported once"
        self._ended[ended.job_id] = ended
        self._over[ended.job_id].set()

    async def _close(self) -> None:
        assert self._running is not None
        processes = descendants_of(os.getpid()) - self._others
        self._running.cancel()
        async with asyncio.timeout(LIMIT):
            await asyncio.wait({self._running})
        assert not runs(processes), "a process is left"
        files, threads = _held()
        new = (files - self._held[0], threads - self._held[1])
        assert new == (set(), set()), "files, connections and threads are given back"


def descendants_of(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that they have started."""
    found: set[int] = set()
    parents = [pid]
    while parents:
        for task in Path(f"/proc/{parents.pop()}/task").glob("*/children"):
            children = [int(pid) for pid in task.read_text().split()]
            found.update(children)
            parents += children
    return found


def runs(pids: Iterable[int]) -> set[int]:
    """Return those of the processes that have not ended."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def _held() -> tuple[set[str], set[threading.Thread]]:
    """Return the open files, by number and kind, and the threads of this process."""
    files = set()
    for handle in os.listdir("/proc/self/fd"):
        try:
            files.add(f"{handle} {os.readlink(f'/proc/self/fd/{handle}').partition(':')[0]}")
        except FileNotFoundError:  # the listing's own
            continue
    return files, {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio-waitpid")}
