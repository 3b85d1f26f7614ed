"""Jobs as tasks of the worker's own process."""

from __future__ import annotations

from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.worker.effects import JobEnded
from vivavoce.agents.worker.executors.executor import Entrypoint, JobExecutor, OnEnded, OnState, ProcessFacts, ignored
from vivavoce.agents.worker.executors.measure import ProcessMeter
from vivavoce.agents.worker.job import RoomJob
from vivavoce.agents.worker.loop_watch import Blockage, LoopWatch
from vivavoce.agents.worker.options import WorkerOptions, api_credentials
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.run import JobRun


class TaskExecutor(JobExecutor):
    """Runs jobs as tasks of the worker's process.

    Args:
        entrypoint: Run once for each job.
        options: Options of the worker.
        shared: The dict that prewarm filled.
        telemetry: Telemetry of the jobs.
        meter: Measures the process, if its owner runs a meter already.
    """

    def __init__(
        self,
        entrypoint: Entrypoint,
        options: WorkerOptions,
        shared: dict[str, Any],
        telemetry: TelemetryControl | None = None,
        meter: ProcessMeter | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._entrypoint = entrypoint
        self._options = options
        self._shared = shared
        self._runs: dict[str, JobRun] = {}
        self._tasks: TaskGroup | None = None
        self._on_ended: OnEnded | None = None
        self._owns_meter = meter is None
        self._meter = meter or ProcessMeter()

    async def run(
        self, on_ended: OnEnded, on_state: OnState = ignored, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        self._on_ended = on_ended
        async with anyio.create_task_group() as self._tasks:
            if (limit := self._options.block_limit) is not None:
                self._tasks.start_soon(LoopWatch(limit, self._loop_was_blocked).run)
            if self._owns_meter:
                self._tasks.start_soon(self._meter.run)
            task_status.started()
            await anyio.sleep_forever()

    def start(self, assigned: JobAssigned, url: str) -> None:
        assert self._tasks is not None, "run() comes first"
        job = assigned.job
        access = api_credentials(self._options, url)
        control = RoomJob(
            job, url=url, token=assigned.token, shared=self._shared, tasks=self._tasks, credentials=access
        )
        run = self._runs[job.id] = JobRun(control, self._entrypoint, self._options, self._tasks, self._telemetry)
        self._tasks.start_soon(self._run_job, job.id, run)

    def end(self, job_id: str, reason: str, *, is_forced: bool) -> None:
        if (run := self._runs.get(job_id)) is not None:
            run.end(reason, is_forced=is_forced)

    def facts(self) -> tuple[ProcessFacts, ...]:
        return (self._meter.facts(len(self._runs)),)

    def _loop_was_blocked(self, blockage: Blockage) -> None:
        for run in self._runs.values():
            run.loop_was_blocked(blockage)

    async def _run_job(self, job_id: str, run: JobRun) -> None:
        assert self._on_ended is not None, "run() comes first"
        try:
            await run.run()
        finally:
            del self._runs[job_id]
        self._on_ended(JobEnded(job_id=job_id, error=run.error, is_replaced=run.is_replaced))
