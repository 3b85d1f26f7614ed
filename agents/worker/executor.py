"""Where jobs run: the port, and jobs as tasks of the worker's own process."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from vivavoce.agents.telemetry.telemetry import Telemetry
from vivavoce.agents.worker.job import JobContext, JobControl
from vivavoce.agents.worker.options import WorkerOptions, api_credentials
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.run import JobRun

logger = logging.getLogger(__name__)

Entrypoint = Callable[[JobContext], Awaitable[None]]

OnEnded = Callable[[str, str], None]
"""Called with the id of a job that is over and the text of its error, empty if the job succeeded."""


class JobExecutor(ABC):
    """Runs jobs beside each other: a failing one does not affect others. Calls never wait; the end of a job is
    reported.
    """

    @abstractmethod
    async def run(self, on_ended: OnEnded, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Own the jobs until cancelled; jobs that still run then only leave their rooms."""

    @abstractmethod
    def start(self, assigned: JobAssigned, url: str) -> None:
        """Run a job; `url` is where its room is. Its end is reported exactly once."""

    @abstractmethod
    def end(self, job_id: str, reason: str, *, is_forced: bool) -> None:
        """End a job if it still runs; `is_forced` gives its entrypoint no time to return by itself."""


class TaskExecutor(JobExecutor):
    """Runs jobs as tasks of the worker's process.

    Args:
        entrypoint: Run once for each job.
        options: Options of the worker.
        shared: The dict that prewarm filled.
        telemetry: Telemetry of the jobs.
    """

    def __init__(
        self,
        entrypoint: Entrypoint,
        options: WorkerOptions,
        shared: dict[str, Any],
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._entrypoint = entrypoint
        self._options = options
        self._shared = shared
        self._runs: dict[str, JobRun] = {}
        self._tasks: TaskGroup | None = None
        self._on_ended: OnEnded | None = None

    async def run(self, on_ended: OnEnded, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self._on_ended = on_ended
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            await anyio.sleep_forever()

    def start(self, assigned: JobAssigned, url: str) -> None:
        assert self._tasks is not None, "run() comes first"
        job = assigned.job
        access = api_credentials(self._options, url)
        control = JobControl(
            job, url=url, token=assigned.token, shared=self._shared, tasks=self._tasks, credentials=access
        )
        run = self._runs[job.id] = JobRun(control, self._entrypoint, self._options, self._tasks, self._telemetry)
        self._tasks.start_soon(self._run_job, job.id, run)

    def end(self, job_id: str, reason: str, *, is_forced: bool) -> None:
        if (run := self._runs.get(job_id)) is not None:
            run.end(reason, is_forced=is_forced)

    async def _run_job(self, job_id: str, run: JobRun) -> None:
        assert self._on_ended is not None, "run() comes first"
        try:
            await run.run()
        finally:
            del self._runs[job_id]
        self._on_ended(job_id, run.error)
